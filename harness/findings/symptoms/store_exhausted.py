"""Every connection to the store is taken, and rows wait for one."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, given, has_grown
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import STORE_IN_USE, STORE_LIMIT, STORE_WAITING
from harness.metrics.window import Window

LIMIT: Final = 0.1
"""Share of the time in which none is free."""
GROWN: Final = 2.0


def check(context: Context) -> Symptom | None:
    """Fires where all connections are taken a tenth of the time, and rows wait for one."""
    share = figure(context, "share of the time without a free connection", _share, "share")
    waiting = figure(context, "rows that wait, at most", _waiting)
    if share is None or waiting is None or share.value <= LIMIT or waiting.value <= 0:
        return None
    if not has_grown(share, GROWN):
        return None
    return Symptom(
        name="store_exhausted",
        seen=(
            f"All of the store's connections are taken {percent(share.value)} of the time, and up "
            f"to {number(waiting.value)} rows wait for one."
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
    taken, limit = window.values(STORE_IN_USE.name), window.mean(STORE_LIMIT.name)
    return float((taken >= limit).mean()) if taken.size and limit else None


def _waiting(window: Window) -> float | None:
    return window.maximum(STORE_WAITING.name)
