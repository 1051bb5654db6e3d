"""The accelerated path beside the baseline: one row for each cell, with a whisker to see at once.

The whisker stands on a logarithmic scale around 1, the same for all rows.
"""

import math
from dataclasses import dataclass
from typing import Final

from harness.report import grid, quantity, words
from harness.report.schema import ComparedMetric, Report
from harness.report.table import anchors
from harness.report.text import line

SHOWN_ROWS: Final = 60
_MARKS: Final = {"faster": "\u25bc", "slower": "\u25b2", "same": "=", "undecided": "?"}


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
    """One compared quantile."""

    anchor: str
    place: str
    metric: str
    ratio: str | None
    verdict: str
    mark: str
    words: str
    whisker: Whisker | None


@dataclass(frozen=True)
class ComparisonTable:
    """All rows with the scale they share."""

    reference: str
    candidate: str
    rows: tuple[ComparisonRow, ...]
    left_out: int
    ends: tuple[str, str]
    middle: float


def build_comparison(report: Report) -> ComparisonTable | None:
    """The rows, those with the clearest difference kept where there are too many."""
    comparison = report.comparison
    if comparison is None or not comparison.metrics:
        return None
    shown = comparison.metrics[:SHOWN_ROWS]
    low, high = _scale(list(shown))
    ids = anchors(report)
    cells = {cell.id: cell for cell in report.cells}
    names = [name for name in grid.varying_factors(report.cells) if name != "accelerated"]
    rows = tuple(
        ComparisonRow(
            anchor=ids.get(item.cell, ""),
            place=grid.cell_label(cells[item.cell], names)
            if item.cell in cells
            else line(item.cell, 60),
            metric=words.metric_quantile(item.metric, item.q),
            ratio=quantity.ratio_interval(item.ratio, item.low, item.high),
            verdict=item.verdict,
            mark=_MARKS[item.verdict],
            words=words.comparison(item),
            whisker=_whisker(item, low, high),
        )
        for item in shown
    )
    return ComparisonTable(
        reference=line(comparison.reference, 60),
        candidate=line(comparison.candidate, 60),
        rows=rows,
        left_out=len(comparison.metrics) - len(shown),
        ends=(quantity.number(low, 2), quantity.number(high, 2)),
        middle=_place(1.0, low, high),
    )


def _scale(items: list[ComparedMetric]) -> tuple[float, float]:
    known = [
        v for item in items for v in (item.ratio, item.low, item.high) if v is not None and v > 0
    ]
    reach = max((abs(math.log2(v)) for v in known), default=1.0)
    power = min(6.0, max(0.5, math.ceil(reach * 4) / 4))
    return 2.0**-power, 2.0**power


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
