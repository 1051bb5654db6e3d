"""The breakpoint map: P99 over the two leading axes, one panel for each remaining combination.

It is a table of links and not a picture, so that a keyboard and a screen reader reach every cell.
Colour is by the logarithm of the value, in seven steps; the number stands in the cell.
"""

import math
from dataclasses import dataclass
from typing import Final

from harness.report import grid, palette, quantity, words
from harness.report.quantity import Unit
from harness.report.schema import Breakpoint, Cell, Estimate, Factor, Quantile, Report
from harness.report.text import short

MAX_PANELS: Final = 12


@dataclass(frozen=True)
class HeatCell:
    """One square; an edge says that a break lies between it and its neighbour.

    Attributes:
        text: the number.
        interval: the bounds in brackets; an open one is a question mark.
        mark: the sign of a state that is no plain one, or empty.
        title: its cell in words, the value with its unit and interval, and its state.
        step: which of the seven colours.
    """

    cell: Cell | None
    text: str | None
    interval: str
    mark: str
    title: str
    step: int | None
    is_edge_left: bool
    is_edge_above: bool

    @property
    def is_edge(self) -> bool:
        """Whether a break lies at either side."""
        return self.is_edge_left or self.is_edge_above


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

    @property
    def shown_cells(self) -> frozenset[str]:
        """Ids of the cells that have a square to go back to."""
        squares = (c for panel in self.panels for row in panel.rows for c in row.cells)
        return frozenset(c.cell.id for c in squares if c.cell is not None and c.text is not None)


def build_heat_map(report: Report, quantile: Quantile) -> HeatMap | None:
    """The map, or None where the grid has fewer than two numeric axes."""
    axes = grid.numeric_axes(report)
    if len(axes) < 2:
        return None
    across, down = axes[:2]
    ladder = build_ladder(report, quantile)
    if ladder is None:
        return None
    low, high, unit = ladder.low, ladder.high, ladder.unit
    panels = [
        _panel(ladder, across, fixed, cells, down)
        for fixed, cells in panel_cells(report, across, down).items()
    ]
    shown = panels[:MAX_PANELS]
    edges = [low * (high / low) ** (i / palette.HEAT_STEPS) for i in range(palette.HEAT_STEPS + 1)]
    return HeatMap(
        across=short(across),
        down=short(down),
        unit=unit,
        panels=tuple(shown),
        left_out=len(panels) - len(shown),
        scale=tuple(quantity.number(edge * unit.per_second) for edge in edges),
        has_breaks=any(c.is_edge for p in shown for row in p.rows for c in row.cells),
    )


@dataclass(frozen=True)
class Ladder:
    """The seven colours and what they stand for."""

    report: Report
    quantile: Quantile
    low: float
    high: float
    unit: Unit
    varying: tuple[str, ...]

    def step(self, value: float) -> int:
        """The colour of a value."""
        if self.high <= self.low or value <= self.low:
            return 0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(palette.HEAT_STEPS - 1, int(share * palette.HEAT_STEPS))

    def step_of(self, cell: Cell) -> int | None:
        """The colour of a cell's value, or of its lower bound; None without either."""
        estimate = cell.metrics.get(self.report.analysis.metric, {}).get(self.quantile)
        if estimate is None:
            return None
        known = estimate.value if estimate.value is not None else estimate.low
        return None if known is None else self.step(known)


def build_ladder(report: Report, quantile: Quantile) -> Ladder | None:
    """The colours of a report; None where no cell has a value."""
    known = grid.estimate_values(report.cells, report.analysis.metric, quantile)
    positive = [value for value in known if value > 0]
    if not positive:
        return None
    low, high = min(positive), max(positive)
    varying = tuple(grid.varying_factors(report.cells))
    return Ladder(report, quantile, low, high, quantity.shared_unit(high), varying)


def panel_cells(report: Report, across: str, down: str) -> dict[grid.Fixed, list[Cell]]:
    """Cells of each panel: all that differ in the two axes only; the path is a factor like others.

    In the order of the facets, so that panels stand as curves do.
    """
    panels: dict[grid.Fixed, dict[int, Cell]] = {}
    for facet in grid.facets(report, across):
        fixed = tuple(item for item in facet.fixed if item[0] != down)
        for cells in facet.paths.values():
            ran = cells[0].factors.get(words.FACTOR)
            panel = fixed if ran is None else ((words.FACTOR, ran), *fixed)
            panels.setdefault(panel, {}).update((id(cell), cell) for cell in cells)
    return {panel: list(known.values()) for panel, known in panels.items()}


def _panel(
    ladder: Ladder, across: str, fixed: grid.Fixed, cells: list[Cell], down: str
) -> HeatPanel:
    varying = grid.varying_factors(ladder.report.cells)
    columns, rows = varying[across], varying[down]
    by_place = {(c.factors.get(across), c.factors.get(down)): c for c in cells}
    here = dict(fixed)
    at = words.place(here)
    return HeatPanel(
        title=words.path_title(here) + (f", {at}" if at else ""),
        columns=tuple(short(quantity.factor_value(value), 20) for value in columns),
        rows=tuple(
            HeatRow(
                short(quantity.factor_value(row), 20),
                tuple(
                    _square(
                        ladder,
                        by_place.get((column, row)),
                        is_edge_left=_is_edge(
                            ladder.report, across, columns, i, {**here, down: row}
                        ),
                        is_edge_above=_is_edge(
                            ladder.report, down, rows, k, {**here, across: column}
                        ),
                    )
                    for i, column in enumerate(columns)
                ),
            )
            for k, row in enumerate(rows)
        ),
    )


def _square(
    ladder: Ladder, cell: Cell | None, *, is_edge_left: bool, is_edge_above: bool
) -> HeatCell:
    metrics = cell.metrics.get(ladder.report.analysis.metric, {}) if cell else {}
    estimate = metrics.get(ladder.quantile)
    text, interval, step = None, "", None
    if estimate is not None and cell is not None and ladder.step_of(cell) is not None:
        bounds = (estimate.value, estimate.low, estimate.high)
        text, interval = quantity.duration_and_bounds(*bounds, ladder.unit)
        step = ladder.step_of(cell)
    mark = words.STATE_MARKS.get(cell.state, "") if cell else ""
    title = _title(ladder, cell, estimate)
    return HeatCell(cell, text, interval, mark, title, step, is_edge_left, is_edge_above)


def _title(ladder: Ladder, cell: Cell | None, estimate: Estimate | None) -> str:
    """`c03, prompt_tokens 256: TTFT P99 129 ms (121-140)`; empty where there is no value."""
    if cell is None or estimate is None:
        return ""
    name = f"{words.METRICS[ladder.report.analysis.metric]} {ladder.quantile.upper()}"
    value = quantity.duration_interval(estimate.value, estimate.low, estimate.high, ladder.unit)
    label = grid.cell_label(cell, ladder.varying)
    state = f", {words.STATES[cell.state]}" if cell.state in words.STATE_MARKS else ""
    return f"{short(cell.id)}, {label}: {name} {value or quantity.DASH}{state}"


def _is_edge(
    report: Report, axis: str, values: list[Factor], i: int, here: dict[str, Factor]
) -> bool:
    """Whether a break along `axis` lies between value i - 1 and value i at this place."""
    if i == 0:
        return False
    return any(
        float(values[i - 1]) < place <= float(values[i])
        for b in report.breakpoints
        if b.axis == axis
        and b.metric == report.analysis.metric
        and words.is_found(b)
        and all(here.get(name, value) == value for name, value in b.at.items())
        and (place := _place(b)) is not None
    )


def _place(breakpoint_: Breakpoint) -> float | None:
    if breakpoint_.location is not None:
        return breakpoint_.location
    if breakpoint_.low is not None and breakpoint_.high is not None:
        return (breakpoint_.low + breakpoint_.high) / 2
    return None
