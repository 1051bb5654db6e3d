"""Ratios of two paths, or of two runs: one row for each cell, with a whisker to see at once.

The whisker stands on a logarithmic scale around 1, the same for all rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report import grid, quantity, words
from harness.report.ledger import MARKS
from harness.report.quantity import Unit
from harness.report.ratio_forest import LEAST
from harness.report.schema import Cell, ComparedMetric, Estimate, MetricName, Report
from harness.report.table import QUANTILES, anchors
from harness.report.text import short

SHOWN_ROWS: Final = 60


@dataclass(frozen=True)
class Whisker:
    """Places in per cent of the strip's width."""

    dot: float
    left: float
    right: float
    is_open_left: bool
    is_open_right: bool

    @property
    def width(self) -> float:
        """Length of the whisker."""
        return round(self.right - self.left, 2)


@dataclass(frozen=True)
class ComparisonRow:
    """One compared quantile; `sides` are its values in the two cells of the report, if they are."""

    anchor: str
    cell: str
    factors: tuple[str, ...]
    sides: tuple[str, str] | None
    ratio: str | None
    interval: str
    verdict: str
    mark: str
    words: str
    whisker: Whisker | None


@dataclass(frozen=True)
class ComparisonGroup:
    """One quantile of one metric in all cells, on one scale."""

    title: str
    said: str
    rows: tuple[ComparisonRow, ...]
    left_out: int
    ends: tuple[str, str]
    middle: float


@dataclass(frozen=True)
class ComparisonTable:
    """All groups, the analysed quantile first."""

    reference: str
    candidate: str
    candidate_title: str
    factors: tuple[str, ...]
    has_sides: bool
    groups: tuple[ComparisonGroup, ...]


def build_comparison(report: Report) -> ComparisonTable | None:
    """The two paths of this run; None where nothing is compared."""
    found = report.comparison
    if found is None or not found.metrics:
        return None
    names = [name for name in grid.varying_factors(report.cells) if name != words.FACTOR]
    names += [words.FACTOR] if found.ledger else []
    references = grid.baselines(report.cells)
    return _table(report, found.reference, found.candidate, found.metrics, names, references)


def build_baseline(report: Report) -> ComparisonTable | None:
    """This run and the earlier one; None without one."""
    found = report.baseline
    if found is None:
        return None
    names = list(grid.varying_factors(report.cells))
    return _table(report, found.reference, found.candidate, found.metrics, names, {})


def counted(items: Sequence[ComparedMetric]) -> str:
    """`faster in 3, undecided in 4 cells`."""
    counts = {verdict: sum(i.verdict == verdict for i in items) for verdict in MARKS}
    said = ", ".join(f"{verdict} in {n}" for verdict, n in counts.items() if n)
    return f"{said} of {quantity.many(len(items), 'cell')}"


def _table(
    report: Report,
    reference: str,
    candidate: str,
    items: Sequence[ComparedMetric],
    names: list[str],
    references: Mapping[str, Cell],
) -> ComparisonTable:
    groups: dict[tuple[MetricName, float], list[ComparedMetric]] = {}
    for item in items:
        groups.setdefault((item.metric, item.q), []).append(item)
    asked = (report.analysis.metric, report.analysis.q)
    ordered = sorted(groups, key=lambda key: key != asked)
    return ComparisonTable(
        reference=short(reference, 60),
        candidate=short(candidate, 60),
        candidate_title=short(candidate if "_" in candidate else candidate.capitalize(), 60),
        factors=tuple(short(name) for name in names),
        has_sides=bool(references),
        groups=tuple(_group(report, groups[key], names, references) for key in ordered),
    )


def _group(
    report: Report,
    items: list[ComparedMetric],
    names: list[str],
    references: Mapping[str, Cell],
) -> ComparisonGroup:
    shown = items[:SHOWN_ROWS]
    low, high = _scale(shown)
    ids = anchors(report)
    cells = {cell.id: cell for cell in report.cells}
    rows = tuple(
        ComparisonRow(
            anchor=ids.get(item.cell, ""),
            cell=short(item.cell),
            factors=tuple(_factor(cells.get(item.cell), name) for name in names),
            sides=_sides(item, cells.get(item.cell), references.get(item.cell)),
            ratio=_ratio(item)[0],
            interval=_ratio(item)[1],
            verdict=item.verdict,
            mark=MARKS[item.verdict],
            words=words.comparison(item),
            whisker=_whisker(item, low, high),
        )
        for item in shown
    )
    return ComparisonGroup(
        title=words.metric_quantile(items[0].metric, items[0].q),
        said=counted(items),
        rows=rows,
        left_out=len(items) - len(shown),
        ends=(quantity.number(low, 2), quantity.number(high, 2)),
        middle=_place(1.0, low, high),
    )


def _ratio(item: ComparedMetric) -> tuple[str | None, str]:
    text = quantity.ratio_interval(item.ratio, item.low, item.high)
    if text is None:
        return None, ""
    value, _, bounds = text.partition(" (")
    return value, f"({bounds}"


def _sides(
    item: ComparedMetric, cell: Cell | None, reference: Cell | None
) -> tuple[str, str] | None:
    """The quantile in the reference and in the cell, in one unit; None where it is not stored."""
    quantile = next((name for name, q in QUANTILES.items() if q == item.q), None)
    if cell is None or reference is None or quantile is None:
        return None
    both = [side.metrics.get(item.metric, {}).get(quantile) for side in (reference, cell)]
    unit = quantity.shared_unit(max((e.value or 0.0 for e in both if e), default=0.0))
    before, after = (_value(estimate, unit) for estimate in both)
    return before, after


def _value(estimate: Estimate | None, unit: Unit) -> str:
    bounds = (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)
    return quantity.duration_interval(*bounds, unit) or quantity.DASH


def _factor(cell: Cell | None, name: str) -> str:
    if cell is None or name not in cell.factors:
        return quantity.DASH
    if name == words.FACTOR:
        return short(words.path_label(cell.factors), 120)
    return short(quantity.factor_value(cell.factors[name]))


def _scale(items: list[ComparedMetric]) -> tuple[float, float]:
    known = [
        v for item in items for v in (item.ratio, item.low, item.high) if v is not None and v > 0
    ]
    low, high = min(1.0, *known, 1.0), max(1.0, *known, 1.0)
    room = max((high / low) ** 0.12, 1.1)
    return max(low / room, LEAST), min(high * room, 1 / LEAST)


def _whisker(item: ComparedMetric, low: float, high: float) -> Whisker | None:
    if item.ratio is None:
        return None
    return Whisker(
        dot=_place(item.ratio, low, high),
        left=0.0 if item.low is None else _place(item.low, low, high),
        right=100.0 if item.high is None else _place(item.high, low, high),
        is_open_left=item.low is None,
        is_open_right=item.high is None,
    )


def _place(value: float, low: float, high: float) -> float:
    if value <= 0:
        return 0.0
    share = math.log(value / low) / math.log(high / low)
    return round(100 * min(1.0, max(0.0, share)), 2)
