"""The load generator was late: what is slow is the client, not the server."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, given, has_grown, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.load import DISPATCH_LAG, LOAD_TTFT
from harness.metrics.window import Window

LIMIT: Final = 0.1
"""P99 of the lag in P99 of TTFT."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where the generator's own lag is a tenth of what it measures."""
    share = figure(context, "P99 of the lag in P99 of TTFT", _share, "share")
    lag = figure(context, "P99 of the dispatch lag", _lag, "s")
    if share is None or lag is None or share.value <= LIMIT or not has_grown(lag, GROWN):
        return None
    return Symptom(
        name="client_late",
        seen=(
            f"The load generator sends {number(lag.value * 1e3)} ms late (P99), "
            f"{percent(share.value)} of the measured TTFT."
        ),
        cause="The load process has no processor time: too many streams, or a busy machine.",
        fix="tailbreak run --processes 2, or the client on a machine of its own.",
        strength=share.value / LIMIT,
        evidence=given(share, lag),
    )


def _lag(window: Window) -> float | None:
    return window.quantile(DISPATCH_LAG.name, 0.99)


def _share(window: Window) -> float | None:
    return ratio(_lag(window), window.quantile(LOAD_TTFT.name, 0.99))
