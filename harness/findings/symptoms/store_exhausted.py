"""Every connection to the store is taken, and rows wait for one."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, given, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import STORE_IN_USE, STORE_LIMIT, STORE_WAITING
from harness.metrics.window import Window

LIMIT: Final = 0.9
"""Share of the connections, on average over the time."""


def check(context: Context) -> Symptom | None:
    """Fires where over 90 % of the connections are taken on average, and rows wait."""
    share = figure(context, "share of the connections taken", _share)
    waiting = figure(context, "rows that wait, on average", _waiting)
    if share is None or waiting is None or share.value <= LIMIT or waiting.value <= 0:
        return None
    if share.normal is not None and share.normal > LIMIT:
        return None
    return Symptom(
        name="store_exhausted",
        seen=(
            f"{percent(share.value)} of the store's connections are taken, and "
            f"{number(waiting.value)} rows wait for one."
        ),
        cause="Each holds its connection for long, or more rows come than connections can write.",
        fix=(
            "Find what makes a write slow before the limit is raised; ask for async_store; give "
            "a write a deadline, so that one stall does not hold every connection."
        ),
        strength=share.value / LIMIT,
        evidence=given(share, waiting),
    )


def _share(window: Window) -> float | None:
    return ratio(window.mean(STORE_IN_USE.name), window.mean(STORE_LIMIT.name))


def _waiting(window: Window) -> float | None:
    return window.mean(STORE_WAITING.name)
