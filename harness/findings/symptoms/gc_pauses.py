"""Searches for cyclic garbage hold a process of the server up."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import alike, figure, given, has_grown, worst
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import GC_PAUSE
from harness.metrics.window import Window

LIMIT: Final = 0.03
"""Share of one process's time."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where collections take more than 3 % of a process's time, and more than usual."""
    share = figure(context, "share of the time in collections", _share, "share")
    if share is None or share.value <= LIMIT or not has_grown(share, GROWN):
        return None
    often = figure(context, "collections a minute", _per_minute)
    longest = figure(context, "P99 of a pause", _p99, "s")
    told = f" and P99 of a pause is {number(longest.value * 1e3)} ms" if longest else ""
    return Symptom(
        name="gc_pauses",
        seen=f"Collections of cyclic garbage take {percent(share.value)} of the time{told}.",
        cause="Objects in cycles are made faster than usual, or each search walks a large heap.",
        fix=(
            "Ask for gc_tuned (X-MC-Accel), which searches in idle moments; freeze what start-up "
            "made (gc.freeze); find who allocates (tracemalloc, py-spy)."
        ),
        strength=share.value / LIMIT,
        evidence=given(share, often, longest),
    )


def _share(window: Window) -> float | None:
    found = worst(
        window, f"{GC_PAUSE.name}_sum", "process",
        lambda process: window.rate(f"{GC_PAUSE.name}_sum", process=process),
    )  # fmt: skip
    return found[0] / alike(window, f"{GC_PAUSE.name}_sum") if found else None


def _per_minute(window: Window) -> float | None:
    rate = window.rate(f"{GC_PAUSE.name}_count")
    return None if rate is None else rate * 60


def _p99(window: Window) -> float | None:
    return window.quantile(GC_PAUSE.name, 0.99)
