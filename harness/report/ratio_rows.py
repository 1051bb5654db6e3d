"""Which rows the picture of the ratios has, and below which headings.

With a ledger a row is a set of features and a heading the other factors; else a row is the last
factor that varies and a heading the factors before it.
"""

from collections.abc import Iterable
from typing import Final

from harness.report import grid, quantity, words
from harness.report.ledger import build_ledger, told_metrics, told_quantiles
from harness.report.ratio_forest import Forest, ForestGroup, ForestRow
from harness.report.schema import Cell, ComparedMetric, Report
from harness.report.text import short

MAX_ROWS: Final = 24
MAX_PANELS: Final = 3
Named = tuple[str, ForestRow]
"""A row and its heading."""


def build_forest(report: Report) -> Forest | None:
    """The picture of a comparison, at most 24 rows of it; None where nothing is compared."""
    if report.comparison is None or not report.comparison.metrics:
        return None
    named = _of_ledger(report) or _of_cells(report)
    if not named:
        return None
    return Forest(
        metrics=told_metrics(report)[:MAX_PANELS],
        quantiles=told_quantiles(report),
        groups=_grouped(named[:MAX_ROWS]),
    )


def _of_ledger(report: Report) -> list[Named]:
    ledger = build_ledger(report)
    if ledger is None or report.comparison is None:
        return []
    rows = zip(ledger.entries, report.comparison.ledger, strict=False)  # the entries are bounded
    return [
        (
            entry.place if ledger.has_places else "",
            ForestRow(short(entry.label), tuple(row.metrics), is_indented=bool(entry.over)),
        )
        for entry, row in rows
    ]


def _of_cells(report: Report) -> list[Named]:
    assert report.comparison is not None
    found: dict[str, list[ComparedMetric]] = {}
    for item in report.comparison.metrics:
        found.setdefault(item.cell, []).append(item)
    cells = {cell.id: cell for cell in report.cells}
    names = [name for name in grid.varying_factors(report.cells) if name != words.FACTOR]
    rows = ((_name(cells.get(name), names, name), items) for name, items in found.items())
    return [(heading, ForestRow(label, tuple(items))) for (heading, label), items in rows]


def _name(cell: Cell | None, names: list[str], cell_id: str) -> tuple[str, str]:
    """Heading and label of a cell."""
    if cell is None or not names:
        return "", short(cell_id)
    *first, last = (f"{short(name)} {short(_value(cell, name))}" for name in names)
    return ", ".join(first), last


def _value(cell: Cell, name: str) -> str:
    return quantity.factor_value(cell.factors[name]) if name in cell.factors else quantity.DASH


def _grouped(named: Iterable[Named]) -> tuple[ForestGroup, ...]:
    groups: dict[str, list[ForestRow]] = {}
    for heading, row in named:
        groups.setdefault(heading, []).append(row)
    return tuple(ForestGroup(heading, tuple(rows)) for heading, rows in groups.items())
