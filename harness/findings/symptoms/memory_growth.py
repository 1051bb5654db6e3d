"""A process of the server holds more and more memory, and does not come to rest.

A server that warms up grows too, less and less: caches and allocators fill to what the load needs.
"""

import itertools
from typing import Final

from harness.findings.quantity import many, number
from harness.findings.symptoms.measure import label_values
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short
from harness.metrics.catalogue.server import HEAP
from harness.metrics.window import Window

N_PARTS: Final = 4
LIMIT: Final = 0.15
"""Growth over the window, of what it held at first."""
LEAST_BYTES: Final = 32 << 20
LEAST_S: Final = 120.0
"""Shorter than this a fresh server's warm-up looks like a leak, if there is nothing beside it."""
QUICKENED: Final = 2.0
"""How much faster it must grow than in the normal time: that goes on growing is no fault's work."""


def check(context: Context) -> Symptom | None:
    """Fires where each quarter holds more than the one before, by 15 % in all, to the end."""
    found = [
        (growth, process)
        for process in label_values(context.fault, HEAP.name, "process")
        if (growth := _growth(context.fault, process)) is not None
        and _is_no_warm_up(context, process, growth[2] - growth[1])
    ]
    if not found:
        return None
    (share, first, last), process = max(found)
    seconds = context.fault.end_s - context.fault.start_s if context.fault else 0.0
    return Symptom(
        name="memory_growth",
        seen=(
            f"{short(process)} grows from {number(first / 2**20)} to {number(last / 2**20)} MiB "
            f"in {many(round(seconds), 'second')}."
        ),
        cause="Something is kept that is no longer needed, or garbage waits to be collected.",
        fix="Compare two heap snapshots (tracemalloc); bound caches and queues.",
        strength=share / LIMIT,
        evidence=(
            Figure(what="growth over the window", value=share, unit="share"),
            Figure(what="memory in its last quarter", value=last, unit="bytes", normal=None),
        ),
    )


def _is_no_warm_up(context: Context, process: str, grown: float) -> bool:
    """Whether it grows faster than in the normal time, or for long where there is none."""
    fault, normal = context.fault, context.normal
    assert fault is not None
    seconds = fault.end_s - fault.start_s
    if normal is None:
        return seconds >= LEAST_S
    times, values = normal.points(HEAP.name, process=process)
    if times.size < 2:
        return seconds >= LEAST_S
    before = (values[-1] - values[0]) / (normal.end_s - normal.start_s)
    return bool(grown / seconds > QUICKENED * before)


def _growth(window: Window | None, process: str) -> tuple[float, float, float] | None:
    """Share that it grew by, first and last; None where it does not grow throughout."""
    if window is None:
        return None
    times, values = window.points(HEAP.name, process=process)
    if times.size < 2 * N_PARTS:
        return None
    edges = [round(times.size * part / N_PARTS) for part in range(N_PARTS + 1)]
    means = [float(values[a:b].mean()) for a, b in itertools.pairwise(edges)]
    steps = [b - a for a, b in itertools.pairwise(means)]
    grown = means[-1] - means[0]
    is_going_on = min(steps) > 0 and steps[-1] >= grown / len(steps) / 2
    if not is_going_on or grown < LEAST_BYTES or grown / means[0] <= LIMIT:
        return None
    return grown / means[0], means[0], means[-1]
