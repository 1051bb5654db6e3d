"""The ledger: what each set of features changes, and what it adds to a smaller set in it.

Only where a grid asks for several sets. A set is what the answers of its cell say that ran, so
`true` has its place among the lists.
"""

from collections.abc import Sequence
from typing import Final

from harness.findings.finding import Cell, ComparedMetric, Factor, LedgerRow
from harness.scenario.acceleration import FACTOR, Asked, header

Pair = tuple[Cell, Cell]
"""Reference and candidate: two cells that differ in the path, or the features, only."""
MANY: Final = 2


def others(cell: Cell) -> tuple[tuple[str, object], ...]:
    """A cell's factors without the path: the same for cells that may be compared."""
    return tuple((name, value) for name, value in cell.factors.items() if name != FACTOR)


def extensions(pairs: Sequence[Pair]) -> list[Pair]:
    """For each candidate that holds another one's features and more: the largest such, and it."""
    beside: dict[str, list[Cell]] = {}
    for before, after in pairs:
        beside.setdefault(before.id, []).append(after)
    found = ((_largest_within(after, beside[before.id]), after) for before, after in pairs)
    return [(smaller, cell) for smaller, cell in found if smaller is not None]


def build_ledger(items: Sequence[tuple[Pair, Sequence[ComparedMetric]]]) -> list[LedgerRow]:
    """A row for each pair, a set beside the baseline first; empty where one set is compared."""
    if len({after.factors[FACTOR] for (_, after), _ in items}) < MANY:
        return []
    rows = [_row(before, after, metrics) for (before, after), metrics in items]
    places = {cell: number for number, cell in enumerate(dict.fromkeys(row.cell for row in rows))}
    return sorted(rows, key=lambda row: places[row.cell])


def _row(before: Cell, after: Cell, metrics: Sequence[ComparedMetric]) -> LedgerRow:
    return LedgerRow(
        features=as_asked(after.factors[FACTOR]),
        over=as_asked(before.factors[FACTOR]),
        at={name: value for name, value in after.factors.items() if name != FACTOR},
        cell=after.id,
        reference=before.id,
        metrics=list(metrics),
    )


def as_asked(value: Factor) -> Asked:
    """The value of the axis, of a cell that has it."""
    return value if isinstance(value, str) else bool(value)


def _largest_within(cell: Cell, candidates: Sequence[Cell]) -> Cell | None:
    """Of the candidates beside this cell, the one with most of its features, and not all."""
    within = [other for other in candidates if _features(other) < _features(cell)]
    return max(within, key=lambda other: len(_features(other)), default=None)


def _features(cell: Cell) -> frozenset[str]:
    """What ran; where nothing did, what was asked for."""
    return frozenset(cell.features or header(as_asked(cell.factors[FACTOR])).split(","))
