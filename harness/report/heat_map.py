"""The breakpoint map: P99 over the two leading axes, one panel for each remaining combination.

It is a table of links and not a picture, so that a keyboard and a screen reader reach every cell.
Colour is by the logarithm of the value, in seven steps; the number stands in the cell.
"""

import math
from dataclasses import dataclass
from typing import Final

from harness.report import grid, palette, quantity, words
from harness.report.quantity import Unit
from harness.report.schema import Breakpoint, Cell, Factor, Quantile, Report
from harness.report.text import line

MAX_PANELS: Final = 12


@dataclass(frozen=True)
class HeatCell:
    """One square; `breaks` says that a break lies between it and its left neighbour."""

    cell: Cell | None
    text: str | None
    step: int | None
    breaks: bool


@dataclass(frozen=True)
class HeatRow:
    """One value of the second axis."""

    label: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True)
class HeatPanel:
    """One path at one combination of the other factors."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]


@dataclass(frozen=True)
class HeatMap:
    """All panels on one scale."""

    across: str
    down: str
    unit: Unit
    panels: tuple[HeatPanel, ...]
    left_out: int
    scale: tuple[str, ...]
    has_breaks: bool


def build_heat_map(report: Report, quantile: Quantile) -> HeatMap | None:
    """The map, or None where the grid has fewer than two numeric axes."""
    axes = grid.numeric_axes(report)
    if len(axes) < 2:
        return None
    across, down = axes[:2]
    known = grid.estimate_values(report.cells, report.analysis.metric, quantile)
    positive = [value for value in known if value > 0]
    if not positive:
        return None
    low, high = min(positive), max(positive)
    unit = quantity.shared_unit(high)
    ladder = _Ladder(report, quantile, low, high, unit)
    panels = [
        _panel(ladder, facet, path, cells, down)
        for facet in _without(report, across, down)
        for path, cells in facet.paths.items()
    ]
    shown = panels[:MAX_PANELS]
    edges = [low * (high / low) ** (i / palette.HEAT_STEPS) for i in range(palette.HEAT_STEPS + 1)]
    return HeatMap(
        across=line(across, 40),
        down=line(down, 40),
        unit=unit,
        panels=tuple(shown),
        left_out=len(panels) - len(shown),
        scale=tuple(quantity.number(edge * unit.per_second) for edge in edges),
        has_breaks=any(c.breaks for p in shown for row in p.rows for c in row.cells),
    )


@dataclass(frozen=True)
class _Ladder:
    report: Report
    quantile: Quantile
    low: float
    high: float
    unit: Unit

    def step(self, value: float) -> int:
        if self.high <= self.low or value <= self.low:
            return 0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(palette.HEAT_STEPS - 1, int(share * palette.HEAT_STEPS))


def _without(report: Report, across: str, down: str) -> list[grid.Facet]:
    """Facets along `across` in which `down` is free as well."""
    merged: dict[grid.Fixed, grid.Facet] = {}
    for facet in grid.facets(report, across):
        fixed = tuple(item for item in facet.fixed if item[0] != down)
        before = merged.get(fixed)
        paths = dict(before.paths) if before else {}
        for path, cells in facet.paths.items():
            paths[path] = (*paths.get(path, ()), *cells)
        breaks = (before.breakpoints if before else ()) + facet.breakpoints
        merged[fixed] = grid.Facet(across, fixed, paths, breaks)
    return list(merged.values())


def _panel(
    ladder: _Ladder, facet: grid.Facet, path: str, cells: tuple[Cell, ...], down: str
) -> HeatPanel:
    varying = grid.varying_factors(ladder.report.cells)
    columns, rows = varying[facet.axis], varying[down]
    by_place = {(c.factors.get(facet.axis), c.factors.get(down)): c for c in cells}
    at = facet.title
    return HeatPanel(
        title=path.capitalize() + (f", {at}" if at else ""),
        columns=tuple(quantity.factor_value(value) for value in columns),
        rows=tuple(
            HeatRow(
                quantity.factor_value(row),
                tuple(
                    _square(ladder, by_place.get((column, row)), _edge(facet, path, down, row, columns, i), )
                    for i, column in enumerate(columns)
                ),
            )
            for row in rows
        ),
    )


def _square(ladder: _Ladder, cell: Cell | None, breaks: bool) -> HeatCell:
    estimate = cell.metrics.get(ladder.report.analysis.metric, {}).get(ladder.quantile) if cell else None
    if estimate is None:
        return HeatCell(cell, None, None, breaks)
    scale = ladder.unit.per_second
    if estimate.value is not None:
        text = quantity.number(estimate.value * scale)
        return HeatCell(cell, text, ladder.step(estimate.value), breaks)
    if estimate.low is not None:
        text = f"{quantity.AT_LEAST} {quantity.number(estimate.low * scale)}"
        return HeatCell(cell, text, ladder.step(estimate.low), breaks)
    return HeatCell(cell, None, None, breaks)


def _edge(
    facet: grid.Facet, path: str, down: str, row: Factor, columns: list[Factor], i: int
) -> bool:
    """Whether a break lies between column i - 1 and column i in this row."""
    if i == 0:
        return False
    left, right = float(columns[i - 1]), float(columns[i])
    return any(
        left < place <= right
        for b in facet.breakpoints
        if words.is_found(b) and words.path_of(b.at) == path and b.at.get(down, row) == row
        if (place := _place(b)) is not None
    )


def _place(breakpoint_: Breakpoint) -> float | None:
    if breakpoint_.location is not None:
        return breakpoint_.location
    if breakpoint_.low is not None and breakpoint_.high is not None:
        return (breakpoint_.low + breakpoint_.high) / 2
    return None
