"""Where the asked quantile breaks along the asked axis, once per combination of other factors.

Cells that their rules voided take no part. The confidence is shared by all curves of the report
(Bonferroni), so that a report with many curves does not find a break by trying often.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.base.rng import generator
from harness.findings.cells import number
from harness.findings.enough import is_positive, metric_segments
from harness.findings.evidence import Evidence
from harness.findings.finding import USABLE, Breakpoint, Cell, Factor, RankedComponent
from harness.findings.fresh import confirm_jump
from harness.findings.quantity import change_interval
from harness.metrics.components import COMPONENT_NAMES, component_matrix
from harness.scenario.acceleration import FACTOR
from harness.stats import breakpoints as stats_breakpoints
from harness.stats.attribution import Attribution, Ranking, attribute_break, rank_components
from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.cell_quantile import CellQuantile, cell_quantiles

SHOWN_SHARE = 0.005


@dataclass(frozen=True)
class Curve:
    """Usable cells that differ in the axis only, by its value."""

    at: dict[str, Factor]
    cells: tuple[Cell, ...]


def find_breaks(evidence: Evidence, cells: Sequence[Cell]) -> list[Breakpoint]:
    """One entry per curve, in the order of the grid; `none` is an answer too.

    Paths have no order, so where they are what is asked there is no curve.
    """
    axis = evidence.scenario.analysis.axis
    if axis == FACTOR:
        return []
    curves = _curves(axis, cells)
    confidence = 1 - (1 - evidence.scenario.analysis.confidence) / max(1, len(curves))
    found = [_find(evidence, axis, curve, confidence) for curve in curves]
    return [
        _held_up(evidence, curve, each, confidence)
        for curve, each in zip(curves, found, strict=True)
    ]


def borders(curve: Sequence[Cell], found: Breakpoint) -> list[Cell]:
    """The cells next to a break, below and above; fewer at the edge of the curve, or without one.

    A jump is at most placed between two cells, whose upper one is then beyond it.
    """
    if found.location is None:
        return []
    place, axis = found.location, found.axis
    below = [cell for cell in curve if float(cell.factors[axis]) < place]
    above = [cell for cell in curve if float(cell.factors[axis]) >= place]
    return [*sorted(below, key=lambda c: float(c.factors[axis]))[-1:],
            *sorted(above, key=lambda c: float(c.factors[axis]))[:1]]  # fmt: skip


def _held_up(evidence: Evidence, curve: Curve, found: Breakpoint, confidence: float) -> Breakpoint:
    """The break with what fresh rows say of it; none where they say that there is no jump."""
    near = borders(curve.cells, found)
    if found.kind not in ("jump", "both") or len(near) < 2:
        return found
    fresh = confirm_jump(evidence, near[0], near[1], confidence)
    if fresh is None:
        return found
    rises = (found.effect or 0) > 0
    holds = fresh.low is not None and fresh.high is not None
    if holds and (fresh.low > 0 if rises else fresh.high < 0):  # type: ignore[operator]
        return found.model_copy(update={"confirmed": fresh})
    text = (
        f"A {found.kind} at {found.axis} {found.location:g} was found and does not show on a fresh "
        f"start: {change_interval(fresh.effect or 0.0, fresh.low, fresh.high)} between "
        f"{near[0].id} and {near[1].id}, {fresh.n} requests."
    )
    none = _nothing(evidence, found.axis, curve, text)
    return none.model_copy(
        update={"confirmed": fresh, "detectable_effect": found.detectable_effect}
    )


def _curves(axis: str, cells: Sequence[Cell]) -> list[Curve]:
    groups: dict[tuple[tuple[str, Factor], ...], list[Cell]] = {}
    for cell in cells:
        at = tuple((name, value) for name, value in cell.factors.items() if name != axis)
        groups.setdefault(at, [])
        if cell.state in USABLE:
            groups[at].append(cell)
    return [
        Curve(at=dict(at), cells=tuple(sorted(group, key=lambda cell: float(cell.factors[axis]))))
        for at, group in groups.items()
    ]


def _find(evidence: Evidence, axis: str, curve: Curve, confidence: float) -> Breakpoint:
    analysis = evidence.scenario.analysis
    if not curve.cells:
        return _nothing(evidence, axis, curve, f"no usable cell on {axis}")
    quantiles = curve_quantiles(evidence, curve.cells)
    if quantiles is None:
        text = f"{analysis.metric} is undefined in some cells of this curve"
        return _nothing(evidence, axis, curve, text)
    x = np.array([float(cell.factors[axis]) for cell in curve.cells])
    shift = 1.0 - float(x.min()) if x.min() <= 0 else 0.0  # places are logarithmic
    found = stats_breakpoints.find_breakpoint(
        x + shift,
        np.array([item.log_value for item in quantiles]),
        np.array([item.se for item in quantiles]),
        open_upper=np.array([item.open for item in quantiles]),
        min_effect_jump=analysis.min_jump,
        min_effect_kink=analysis.min_kink,
        confidence=confidence,
        rng=generator(evidence.plan.seed, "break", *map(str, curve.at.items())),
    )
    if shift:
        text = (
            f"{axis} is taken as log(x + {shift:g}): octaves, widths and the places that other "
            "doubts name are those of the sum."
        )
        found = replace(found, caveats=(*found.caveats, Caveat(CaveatKind.SHIFTED_AXIS, text)))
    return _describe(evidence, axis, curve, _unshifted(found, shift))


def curve_quantiles(evidence: Evidence, cells: Sequence[Cell]) -> tuple[CellQuantile, ...] | None:
    """The analysed quantile of each cell; None where it is undefined in one of them."""
    analysis = evidence.scenario.analysis
    segments = [
        metric_segments(evidence.cell_rows(evidence.plan.cell(cell.id)), analysis.metric)
        for cell in cells
    ]
    return cell_quantiles(segments, analysis.q) if all(map(is_positive, segments)) else None


def _unshifted(found: stats_breakpoints.Breakpoint, shift: float) -> stats_breakpoints.Breakpoint:
    def back(place: float | None) -> float | None:
        return None if place is None else place - shift

    return replace(found, location=back(found.location), low=back(found.low), high=back(found.high))


def _describe(
    evidence: Evidence, axis: str, curve: Curve, found: stats_breakpoints.Breakpoint
) -> Breakpoint:
    analysis = evidence.scenario.analysis
    is_break = found.kind.value in ("jump", "kink", "both")
    blame = _attribute(evidence, curve, found) if is_break else _Blame()
    ranked = blame.ranked or _rank_last(evidence, curve)
    return Breakpoint(
        metric=analysis.metric,
        q=analysis.q,
        axis=axis,
        at=curve.at,
        kind=found.kind.value,
        location=number(found.location),
        low=number(found.low),
        high=number(found.high),
        effect=number(found.effect),
        effect_low=number(found.effect_low),
        effect_high=number(found.effect_high),
        width_octaves=number(found.width_octaves),
        component=blame.component,
        share=blame.share[0],
        share_low=blame.share[1],
        share_high=blame.share[2],
        ranked=ranked,
        detectable_effect=number(found.detectable_effect),
        caveats=[caveat.text for caveat in found.caveats] + blame.caveats,
    )


def _nothing(evidence: Evidence, axis: str, curve: Curve, caveat: str) -> Breakpoint:
    analysis = evidence.scenario.analysis
    return Breakpoint(
        metric=analysis.metric, q=analysis.q, axis=axis, at=curve.at, kind="none",
        location=None, low=None, high=None, effect=None, effect_low=None, effect_high=None,
        width_octaves=None, component=None, share=None, share_low=None, share_high=None,
        ranked=_rank_last(evidence, curve), detectable_effect=None, caveats=[caveat],
    )  # fmt: skip


@dataclass(frozen=True)
class _Blame:
    component: str | None = None
    share: tuple[float | None, float | None, float | None] = (None, None, None)
    ranked: list[RankedComponent] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)


def _attribute(evidence: Evidence, curve: Curve, found: stats_breakpoints.Breakpoint) -> _Blame:
    """The split of the rise across the break, between the cells on either side."""
    if found.below is None or found.above is None:
        return _Blame()
    below = _components(evidence, curve.cells[found.below])
    above = _components(evidence, curve.cells[found.above])
    if below is None or above is None:
        return _Blame(caveats=["the target gives no account of its phases: nothing to blame"])
    analysis = evidence.scenario.analysis
    rng = generator(evidence.plan.seed, "blame", *map(str, curve.at.items()))
    result = attribute_break(
        below, below.sum(axis=1), above, above.sum(axis=1), analysis.q, rng=rng
    )
    ranked = _ranked(result)
    caveats = [caveat.text for caveat in result.caveats]
    if result.culprit is None:
        return _Blame(ranked=ranked, caveats=caveats)
    culprit = result.culprit
    share = (
        number(result.share[culprit]),
        number(result.low[culprit]),
        number(result.high[culprit]),
    )
    return _Blame(component=COMPONENT_NAMES[culprit], share=share, ranked=ranked, caveats=caveats)


def _components(evidence: Evidence, cell: Cell) -> np.ndarray | None:
    rows = evidence.cell_rows(evidence.plan.cell(cell.id))
    matrix = component_matrix(rows, evidence.scenario.analysis.metric)
    if matrix is None:
        return None
    known = matrix[np.isfinite(matrix).all(axis=1)]
    return known if len(known) >= 2 else None


def _rank_last(evidence: Evidence, curve: Curve) -> list[RankedComponent]:
    """Without a break: what the slowest requests of the curve's last cell spent their time on."""
    matrix = _components(evidence, curve.cells[-1]) if curve.cells else None
    if matrix is None:
        return []
    rng = generator(evidence.plan.seed, "rank", *map(str, curve.at.items()))
    result = rank_components(matrix, matrix.sum(axis=1), evidence.scenario.analysis.q, rng=rng)
    return _ranked(result)


def _ranked(result: Ranking | Attribution) -> list[RankedComponent]:
    return [
        RankedComponent(
            component=COMPONENT_NAMES[i],
            share=number(result.share[i]),
            low=number(result.low[i]),
            high=number(result.high[i]),
        )
        for i in result.order.tolist()
        if abs(result.share[i]) >= SHOWN_SHARE
    ]
