"""Where a quantile changes regime along one axis: jump, kink, staircase, gradual rise, or none.

A breakpoint is claimed only where a break beats every family of smooth curves
(`harness.stats.smooth`) and is at least as large as the minimum effect. Otherwise the answer says
how large a jump would have been seen. The curve is the log of a quantile over the log of the axis,
each cell with its known standard error (`harness.stats.cell_quantile`).
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.axis_cells import axis_cells
from harness.stats.break_place import Place, column_effects, describe
from harness.stats.break_power import detectable_jump
from harness.stats.break_rounds import Options, Rounds, explain
from harness.stats.break_search import build_nulls, grid_of
from harness.stats.candidates import Candidate, Shape
from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.gradual import steep_rise
from harness.stats.smooth import SPLINE_CELLS, Array

MIN_CELLS = 5
STEP_RATIO = 2.0
TRUSTED_SCALE = 2.5
"""Largest widening of the errors after which a break is still claimed."""


class BreakKind(StrEnum):
    """What happens at the place."""

    JUMP = "jump"
    KINK = "kink"
    BOTH = "both"
    STAIRCASE = "staircase"
    GRADUAL = "gradual"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """What was found along one axis.

    Attributes:
        kind: what happens.
        location: place in units of x; None where nothing was found.
        low: lower end of its interval; at a jump never inside a gap between two cells.
        high: upper end.
        effect: relative jump exp(d) - 1; for a kink the change of slope in log units per octave;
            for a gradual rise exp(rise) - 1 from `low` to `high`.
        effect_low: lower end of its interval.
        effect_high: upper end.
        slope_change: beside a jump of kind `both`, the change of slope in log units per octave.
        width_octaves: width of the transition; at a sharp break the gap it lies in.
        detectable_effect: relative size of a further jump that would have been found with about
            80 % power, three cells or more off the ends; None where the grid cannot show any.
        p_value: the largest over the families; None without a search.
        below: index, in the order given, of the cell just below the place.
        above: index of the cell just above.
        nulls: names of the families that had to be beaten; those that cannot describe the data even
            with a break are not among them.
        others: further breaks in order of strength; further steps of a staircase.
        caveats: what limits the result.
    """

    kind: BreakKind
    location: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    slope_change: float | None = None
    width_octaves: float | None = None
    detectable_effect: float | None = None
    p_value: float | None = None
    below: int | None = None
    above: int | None = None
    nulls: tuple[str, ...] = ()
    others: tuple["Breakpoint", ...] = ()
    caveats: tuple[Caveat, ...] = ()


def find_breakpoint(
    x: ArrayLike,
    log_quantile: ArrayLike,
    se: ArrayLike,
    *,
    rng: np.random.Generator,
    open_upper: ArrayLike | None = None,
    min_effect_jump: float = 0.10,
    min_effect_kink: float = 0.2,
    confidence: float = 0.95,
    n_bootstrap: int = 999,
) -> Breakpoint:
    """The strongest break of a log quantile along one axis, with the weaker ones behind it.

    The search runs in rounds: the best candidate that beats every smooth family and the minimum
    effect in each is kept as a free column, and the rest is searched again. A cell standing alone
    is set aside the same way and never reported as a break. Where what is left over after the last
    round is larger than the errors allow, the errors are widened by that factor and the whole
    search is done again; after a widening beyond 2.5 no break is claimed.

    Cells with an open upper bound (`open_upper`) take part with the wider error that
    `cell_quantile` gives them and are named in a caveat; cells
    whose quantile is infinite (requests that never ended) are left out of the fit and named in a
    caveat. A standard error below half the median of all is raised to it.

    Args:
        x: place of each cell on the axis, above zero, no two alike, in any order.
        log_quantile: natural log of the quantile of each cell; +inf where it is unbounded.
        se: its standard error.
        rng: draws of the bootstrap; the same generator state gives the same answer.
        open_upper: which cells have no finite upper bound.
        min_effect_jump: smallest relative jump worth a report.
        min_effect_kink: smallest change of slope worth a report, log units per octave.
        confidence: of thresholds and intervals.
        n_bootstrap: draws per family and round.

    Shapes: x, log_quantile, se, open_upper (n,).

    Raises:
        ValueError: shapes that differ, NaN, x not above zero or twice the same, se not above zero.
    """
    cells = axis_cells(x, log_quantile, se, open_upper)
    order, z, y, error = cells.order, cells.z, cells.y, cells.se
    caveats = list(cells.caveats)
    if z.size < MIN_CELLS:
        text = f"{z.size} usable cells; a break needs at least {MIN_CELLS}."
        return Breakpoint(
            kind=BreakKind.NONE, caveats=(*caveats, Caveat(CaveatKind.SMALL_GRID, text))
        )
    if z.size < SPLINE_CELLS:
        text = f"{z.size} cells: judged against a parabola, not a cubic, and without the spline."
        caveats.append(Caveat(CaveatKind.NULL_LEFT_OUT, text))
    options = Options(
        minimum={Shape.JUMP: math.log1p(min_effect_jump), Shape.KINK: min_effect_kink},
        n_bootstrap=n_bootstrap,
        confidence=confidence,
    )
    rounds, scale = explain(y, z, error, options, rng)
    if scale > 1:
        text = (
            "No smooth curve, with or without a break, comes within the standard errors; "
            f"these were widened by {scale:.1f}."
        )
        caveats.append(Caveat(CaveatKind.OVERDISPERSED, text))
        error = error * scale
    caveats += _lone_cells(rounds, y, z, error)
    found = [_report(y, z, error, rounds, i, order, confidence, rng) for i in rounds.breaks]
    strongest = _combine(found)
    if strongest is not None and scale > TRUSTED_SCALE:
        text = f"A {strongest.kind} at {strongest.location:.4g} is not claimed for that reason."
        caveats.append(Caveat(CaveatKind.AMBIGUOUS_KIND, text))
        strongest = None
    detectable = detectable_jump(y, rounds.last, min_effect_jump)
    if detectable is None:
        further = "further " if found else ""
        text = f"The grid is too small or too noisy to show a {further}jump of any size."
        caveats.append(Caveat(CaveatKind.SMALL_GRID, text))
    if strongest is None:
        strongest = _gradual(y, z, cells.se, order, confidence)
    return replace(
        strongest,
        detectable_effect=detectable,
        nulls=rounds.names,
        caveats=(*caveats, *strongest.caveats),
    )


def _report(
    y: Array,
    z: Array,
    se: Array,
    rounds: Rounds,
    i: int,
    order: NDArray[np.int64],
    confidence: float,
    rng: np.random.Generator,
) -> Breakpoint:
    """One break described beside all the others."""
    item, column = rounds.taken[i]
    others = [pair for j, pair in enumerate(rounds.taken) if j != i]
    grid = grid_of(z, se, others)
    place = describe(y, grid, rounds.taken[i], rounds.names, confidence, rng)
    is_jump = item.shape is Shape.JUMP
    size = _relative if is_jump else float
    is_gradual = is_jump and place.is_soft
    half = place.width / 2
    pivot = item.pivot if is_jump else float(z[-1] - column[-1])
    return Breakpoint(
        kind=BreakKind.GRADUAL if is_gradual else BreakKind(item.shape.value),
        location=_on_axis(place.center if is_gradual else pivot),
        low=_on_axis(place.center - half if is_gradual else place.low),
        high=_on_axis(place.center + half if is_gradual else place.high),
        effect=size(place.effect),
        effect_low=size(place.effect_low),
        effect_high=size(place.effect_high),
        width_octaves=place.width,
        p_value=rounds.p_values[i],
        below=int(order[item.below]),
        above=int(order[item.below + 1]),
        caveats=_place_caveats(place, item, z),
    )


def _place_caveats(place: Place, item: Candidate, z: Array) -> tuple[Caveat, ...]:
    found = []
    span = (place.high - place.low) / (z[-1] - z[0])
    if span > 0.25 and place.high - place.low > (item.high - item.low) * 1.01:
        text = f"A break exists, but its place is open over {span:.0%} of the axis."
        found.append(Caveat(CaveatKind.NOT_LOCALISED, text))
    above = int((z > item.pivot).sum())
    if min(above, z.size - above) <= 2:
        n = min(above, z.size - above)
        text = f"Only {n} cell{' lies' if n == 1 else 's lie'} on one side of it."
        found.append(Caveat(CaveatKind.AT_EDGE, text))
    return tuple(found)


def _combine(found: list[Breakpoint]) -> Breakpoint | None:
    """One answer from the breaks of all rounds, in order of strength."""
    if not found:
        return None
    first, rest = found[0], list(found[1:])
    for other in rest:
        kinds = {first.kind, other.kind}
        if kinds == {BreakKind.JUMP, BreakKind.KINK} and first.below == other.below:
            jump, kink = (first, other) if first.kind is BreakKind.JUMP else (other, first)
            rest.remove(other)
            first = replace(jump, kind=BreakKind.BOTH, slope_change=kink.effect)
            break
    stairs = _steps(found)
    if stairs is not None:
        return stairs
    return replace(first, others=tuple(rest))


def _steps(found: list[Breakpoint]) -> Breakpoint | None:
    """A staircase where at least three jumps, or two small ones, are alike in sign and size."""
    jumps = [b for b in found if b.kind is BreakKind.JUMP and b.effect is not None]
    sizes = [math.log1p(b.effect) for b in jumps if b.effect is not None]
    if len(jumps) < 2 or min(sizes) * max(sizes) < 0:
        return None
    least, most = min(map(abs, sizes)), max(map(abs, sizes))
    if most > STEP_RATIO * least or (len(jumps) == 2 and most > math.log(1.5)):
        return None
    ends = [bound for b in jumps for bound in (b.low, b.high) if bound is not None]
    return replace(
        jumps[0],
        kind=BreakKind.STAIRCASE,
        low=min(ends),
        high=max(ends),
        width_octaves=math.log2(max(ends) / min(ends)),
        others=tuple(jumps[1:]),
    )


def _gradual(
    y: Array, z: Array, se: Array, order: NDArray[np.int64], confidence: float
) -> Breakpoint:
    """A rise steeper than proportional, or nothing."""
    rise = steep_rise(y, z, se, confidence)
    if rise is None:
        return Breakpoint(kind=BreakKind.NONE)
    middle = (rise.low + rise.high) / 2
    below = int(np.searchsorted(z, middle, side="right")) - 1
    caveats = []
    if rise.high >= z[-1] - 1e-9:
        text = "The rise goes on to the end of the axis."
        caveats.append(Caveat(CaveatKind.AT_EDGE, text))
    return Breakpoint(
        kind=BreakKind.GRADUAL,
        location=_on_axis(middle),
        low=_on_axis(rise.low),
        high=_on_axis(rise.high),
        effect=_relative(rise.effect),
        effect_low=_relative(rise.effect_low),
        effect_high=_relative(rise.effect_high),
        width_octaves=rise.high - rise.low,
        below=int(order[below]),
        above=int(order[below + 1]),
        caveats=tuple(caveats),
    )


def _lone_cells(rounds: Rounds, y: Array, z: Array, se: Array) -> list[Caveat]:
    found = []
    for (item, column), rival in zip(rounds.taken, rounds.rivals, strict=True):
        if item.shape is not Shape.SPIKE:
            continue
        at = int(column.argmax())
        others = [pair for pair in rounds.taken if pair[0] is not item]
        nulls = build_nulls(grid_of(z, se, others))
        size = _relative(float(np.median(column_effects(y, nulls, column)[0])))
        is_end = at in {0, z.size - 1}
        kind = CaveatKind.AT_EDGE if is_end else CaveatKind.LONE_CELL
        what = "measure beyond it" if is_end else "measure it again"
        text = f"The cell at {2 ** z[at]:g} lies {size:+.0%} off the curve of the others; {what}."
        found.append(Caveat(kind, text))
        if rival is not None:
            text = f"A {rival.shape} at {2**rival.pivot:.4g} in its stead fits nearly as well."
            found.append(Caveat(CaveatKind.AMBIGUOUS_KIND, text))
    return found


def _relative(log_units: float) -> float:
    """exp(d) - 1, kept finite."""
    return math.expm1(min(log_units, 700.0))


def _on_axis(z: float) -> float:
    """2^z to twelve digits, so that a place at a cell reads as that cell."""
    return float(f"{2.0**z:.12g}")
