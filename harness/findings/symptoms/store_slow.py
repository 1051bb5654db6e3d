"""Requests wait long for the journal to store them."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, given, has_grown, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import INFER_DURATION, PHASE_DURATION
from harness.metrics.window import Window

LIMIT: Final = 0.2
"""Share of a whole inference."""
GROWN: Final = 2.0


def check(context: Context) -> Symptom | None:
    """Fires where storing takes over 20 % of a request's time, and more than usual."""
    share = figure(context, "share of a request's time", _share, "share")
    spent = figure(context, "time to store a request", _seconds, "s")
    if share is None or spent is None or share.value <= LIMIT or not has_grown(spent, GROWN):
        return None
    return Symptom(
        name="store_slow",
        seen=(
            f"Storing a request takes {number(spent.value * 1e3)} ms, {percent(share.value)} of "
            "its time."
        ),
        cause="The store is slow: its disk, its lock, or one commit for every row.",
        fix="Ask for async_store, one commit for many rows; look at the store's disk and locks.",
        strength=share.value / LIMIT,
        evidence=given(share, spent),
    )


def _seconds(window: Window) -> float | None:
    return ratio(
        window.rate(f"{PHASE_DURATION.name}_sum", phase="store"),
        window.rate(f"{INFER_DURATION.name}_count"),
    )


def _share(window: Window) -> float | None:
    return ratio(
        window.rate(f"{PHASE_DURATION.name}_sum", phase="store"),
        window.rate(f"{INFER_DURATION.name}_sum"),
    )
