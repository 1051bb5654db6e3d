"""What to measure next: from what is recorded to wishes for the next round of a run.

First what finds, places and confirms a break (`[refine]`), then what narrows cells (`[stop]`), as
far as the budget goes. Pure: the same records give the same wishes.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from harness.findings.breaks import borders, curve_quantiles
from harness.findings.enough import judge_enough
from harness.findings.evidence import Evidence
from harness.findings.finding import USABLE, Breakpoint, Cell, Factor
from harness.plan.rounds import LEAST_SEGMENT, Why, Wish, n_budget
from harness.stats.refine import points_between, suspect_gap

MAX_ROUNDS: Final = 12
"""A look at the cells each: more tell little and cost a start of the server."""
SHARP: Final = frozenset({"jump", "kink", "both"})
STEPS: Final = frozenset({"jump", "both"})
WHOLE: Final = frozenset({"prompt_tokens", "cot_depth", "concurrency"})
"""Axes of whole numbers."""
MARGIN: Final = 1.1
"""Over what is predicted to be missing; but never more than there is already: predictions err."""
SEEN_TIMES: Final = 2.0
"""A curve without a break is known well enough where a jump of twice the least would have shown."""


def next_wishes(
    evidence: Evidence, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> list[Wish]:
    """Wishes within the budget; empty where nothing is left to do, or nothing to do it with."""
    n_left = n_budget(evidence.scenario) - evidence.plan.n_measured
    if len(evidence.rounds) + 1 >= MAX_ROUNDS:
        return []
    wishes: list[Wish] = []
    for wish in (*_refining(evidence, cells, breakpoints), *_narrowing(evidence)):
        n = min(wish.n, n_left - sum(each.n for each in wishes))
        is_asked = any(each.factors == wish.factors for each in wishes)
        if n >= LEAST_SEGMENT and not is_asked:
            wishes.append(Wish(factors=wish.factors, n=n, why=wish.why))
    return wishes


def _refining(
    evidence: Evidence, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> Iterator[Wish]:
    if evidence.scenario.refine is None:
        return
    for found in breakpoints:
        curve = [cell for cell in cells if _is_on(cell, found)]
        if any(evidence.segments_for(cell.id, "confirm") for cell in curve):
            continue  # asked once: to ask again until it says yes would be no confirmation
        if found.kind in SHARP or found.kind == "gradual":  # coarse cells cannot tell them apart
            yield from _placing(evidence, curve, found)
        elif found.kind == "none" and not _is_seen(evidence, found):
            yield from _searching(evidence, curve, found.axis)


def _placing(evidence: Evidence, curve: Sequence[Cell], found: Breakpoint) -> Iterator[Wish]:
    """New cells inside the stretch that holds the break; at last both its borders once more."""
    span = (found.low or 0.0, found.high or 0.0)
    points = _points(evidence, curve, found.axis, span)
    yield from _at(curve, found.axis, points, "refine")
    if points or found.kind not in STEPS:  # only a step shows in two cells
        return
    for cell in borders(curve, found):
        yield Wish(factors=cell.factors, n=_typical(curve), why="confirm")


def _searching(evidence: Evidence, curve: Sequence[Cell], axis: str) -> Iterator[Wish]:
    """Cells where a jump is likeliest, so that it shows if it is there; then all of them alike."""
    gap = _suspect(evidence, curve, axis)
    points = _points(evidence, curve, axis, gap) if gap else []
    if gap and points:
        yield from _at(curve, axis, [*points, *gap], "power")
    else:
        yield from (Wish(factors=cell.factors, n=_typical(curve), why="power") for cell in curve)


def _suspect(evidence: Evidence, curve: Sequence[Cell], axis: str) -> tuple[float, float] | None:
    found = curve_quantiles(evidence, curve)
    x = _places(curve, axis)
    if found is None or min(x, default=0.0) <= 0:
        return None
    return suspect_gap(x, [each.log_value for each in found], [each.se for each in found])


def _points(
    evidence: Evidence, curve: Sequence[Cell], axis: str, span: tuple[float, float]
) -> list[float]:
    """New places inside a stretch of the axis; none once it is as short as was asked."""
    refine = evidence.scenario.refine
    if refine is None or span[0] <= 0:
        return []
    return points_between(
        _places(curve, axis), *span, within_octaves=refine.within_octaves,
        snap=partial(_snapped, axis),
    )  # fmt: skip


def _at(curve: Sequence[Cell], axis: str, places: Sequence[float], why: Why) -> Iterator[Wish]:
    for place in places:
        value: Factor = round(place) if axis in WHOLE else place
        yield Wish(factors={**curve[0].factors, axis: value}, n=_typical(curve), why=why)


def _narrowing(evidence: Evidence) -> Iterator[Wish]:
    """Cells that are not narrow yet, those with the least missing first."""
    needs = []
    for cell in evidence.plan.cells:
        found = judge_enough(evidence, cell)
        if found is not None and found.state is None:
            n = found.interval.n
            missing = n if found.n_needed is None else max(found.n_needed, n // 4)
            needs.append((missing, cell.factors, n))
    for missing, factors, n in sorted(needs, key=lambda need: need[0]):
        wanted = min(math.ceil(MARGIN * missing), max(n, LEAST_SEGMENT))
        yield Wish(factors=factors, n=wanted, why="precision")


def _is_on(cell: Cell, found: Breakpoint) -> bool:
    others = {name: value for name, value in cell.factors.items() if name != found.axis}
    return others == found.at and cell.state in USABLE


def _is_seen(evidence: Evidence, found: Breakpoint) -> bool:
    limit = SEEN_TIMES * evidence.scenario.analysis.min_jump
    return found.detectable_effect is not None and found.detectable_effect <= limit


def _typical(curve: Sequence[Cell]) -> int:
    """What a cell of this curve has by now, the middle one."""
    counts = sorted(cell.n for cell in curve)
    return max(LEAST_SEGMENT, counts[len(counts) // 2])


def _places(curve: Sequence[Cell], axis: str) -> list[float]:
    return [float(cell.factors[axis]) for cell in curve]


def _snapped(axis: str, value: float) -> float:
    return float(round(value)) if axis in WHOLE else float(f"{value:.4g}")
