"""The front's event loop wakes late: something in it does not give way."""

from typing import Final

from harness.findings.quantity import number
from harness.findings.symptoms.measure import figure, has_grown
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import LOOP_LAG
from harness.metrics.window import Window

LIMIT_S: Final = 0.1
GROWN: Final = 2.0


def check(context: Context) -> Symptom | None:
    """Fires where the loop wakes over 100 ms late one time in a hundred, and later than usual."""
    lag = figure(context, "P99 of the event loop's lag", _p99, "s")
    if lag is None or lag.value <= LIMIT_S or not has_grown(lag, GROWN):
        return None
    return Symptom(
        name="loop_blocked",
        seen=f"The front's event loop wakes {number(lag.value * 1e3)} ms late (P99).",
        cause="A call in the loop blocks it, or its process gets no processor.",
        fix="py-spy dump of the front while it lasts; move blocking calls off the loop.",
        strength=lag.value / LIMIT_S,
        evidence=(lag,),
    )


def _p99(window: Window) -> float | None:
    return window.quantile(LOOP_LAG.name, 0.99)
