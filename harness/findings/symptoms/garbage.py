"""The server makes garbage faster than it usually does: what collections then have to find."""

from typing import Final

from harness.findings.quantity import number
from harness.findings.symptoms.measure import figure, given, ratio, requests_per_s
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import GC_ALLOCATED, GC_PAUSE
from harness.metrics.window import Window

GROWN: Final = 2.0
LEAST_SEARCHES: Final = 10
"""The counter stands still between two searches: fewer of them are too coarse to tell a rate."""


def check(context: Context) -> Symptom | None:
    """Fires where twice as many objects as normal are made, in all and a request."""
    made = figure(context, "container objects a second", _per_s)
    each = figure(context, "container objects a request", _per_request)
    if made is None or not made.normal or made.value < GROWN * made.normal:
        return None
    if each is not None and each.normal and each.value < GROWN * each.normal:
        return None  # more requests, not more garbage
    if _searches(context.fault) < LEAST_SEARCHES:
        return None
    return Symptom(
        name="garbage",
        seen=(
            f"Container objects are made {number(made.value / made.normal)} times as fast as "
            "normal, and not for more requests."
        ),
        cause="Something allocates that did not: a new code path, a log, a cache that is rebuilt.",
        fix="Find who allocates (py-spy, tracemalloc) in what was last deployed or switched on.",
        strength=made.value / (GROWN * made.normal),
        evidence=given(made, each),
    )


def _searches(window: Window | None) -> float:
    return 0.0 if window is None else window.increase(f"{GC_PAUSE.name}_count") or 0.0


def _per_s(window: Window) -> float | None:
    return window.rate(GC_ALLOCATED.name)


def _per_request(window: Window) -> float | None:
    return ratio(window.rate(GC_ALLOCATED.name), requests_per_s(window))
