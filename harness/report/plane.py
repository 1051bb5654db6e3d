"""The plane of the two leading axes: where its cells lie, and where a surface of break cuts it.

The map is a table with a column for each value; here every cell stands at its true place, which is
what a refined grid needs, and a surface becomes a line with a band. Pure; `plane_chart` draws.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.findings.finding import LEVEL
from harness.report import grid, words
from harness.report.heat_map import Ladder, build_ladder, panel_cells
from harness.report.schema import Breakpoint, Cell, Factor, Quantile, Report, Surface


@dataclass(frozen=True)
class Dot:
    """A cell at its place; `step` is its colour, None without a value."""

    cell: Cell
    x: float
    y: float
    step: int | None


@dataclass(frozen=True)
class Cut:
    """A surface where it meets this plane: x ** `power_x` * y ** `power_y` = level.

    An open bound of the level is None, and a band without it has no edge there.
    """

    power_x: float
    power_y: float
    level: float
    low: float | None
    high: float | None

    def y_at(self, x: float, level: float) -> float | None:
        """Where the line is above `x`; None where it is upright or far out of any plane."""
        if self.power_y == 0 or x <= 0 or level <= 0:
            return None
        log_y = (math.log(level) - self.power_x * math.log(x)) / self.power_y
        return math.exp(log_y) if abs(log_y) < 100 else None

    def x_of(self, level: float) -> float | None:
        """Where an upright line stands; None where the line is not upright."""
        if self.power_y != 0 or self.power_x == 0 or level <= 0:
            return None
        return math.exp(max(-100.0, min(100.0, math.log(level) / self.power_x)))


@dataclass(frozen=True)
class Panel:
    """One path at one combination of the other factors: of a third axis, a slice."""

    title: str
    dots: tuple[Dot, ...]
    cuts: tuple[Cut, ...]
    breaks: tuple[Breakpoint, ...]


@dataclass(frozen=True)
class Plane:
    """All panels over the same two axes."""

    across: str
    down: str
    panels: tuple[Panel, ...]


def build_plane(report: Report, quantile: Quantile) -> Plane | None:
    """The plane where it shows more than the map: a surface, or a grid with gaps."""
    axes = grid.numeric_axes(report)
    ladder = build_ladder(report, quantile) if len(axes) >= 2 else None
    if ladder is None:
        return None
    across, down = axes[:2]
    found = panel_cells(report, across, down)
    panels = [
        _panel(report, ladder, (across, down), dict(here), cells) for here, cells in found.items()
    ]
    is_even = all(_is_full(panel) for panel in panels)
    if is_even and not any(panel.cuts for panel in panels):
        return None
    return Plane(across, down, tuple(panels))


def _panel(
    report: Report,
    ladder: Ladder,
    axes: tuple[str, str],
    here: Mapping[str, Factor],
    cells: list[Cell],
) -> Panel:
    across, down = axes
    dots = tuple(
        Dot(cell, float(cell.factors[across]), float(cell.factors[down]), ladder.step_of(cell))
        for cell in cells
        if across in cell.factors and down in cell.factors
    )
    pairs = [
        (found, cut)
        for found in report.breakpoints
        if found.surface is not None
        and found.metric == report.analysis.metric
        and found.q == report.analysis.q
        and all(here.get(name, value) == value for name, value in found.at.items())
        and (cut := cut_of(found.surface, across, down, here)) is not None
    ]
    at = words.place(here)
    title = words.path_title(here) + (f", {at}" if at else "")
    return Panel(title, dots, tuple(cut for _, cut in pairs), tuple(found for found, _ in pairs))


def cut_of(surface: Surface, across: str, down: str, here: Mapping[str, Factor]) -> Cut | None:
    """The surface in one plane; None where it is unknown there or does not cross it."""
    rest = 1.0
    powers = {name: _power(surface, name) for name in surface.axes}
    for name, power in powers.items():
        if name in (across, down):
            continue
        value = here.get(name)
        if not power or value is None:
            continue
        if not grid.is_number(value) or float(value) <= 0:
            return None
        rest *= float(value) ** power
    level = surface.coefficients.get(LEVEL)
    x, y = powers.get(across, 0.0), powers.get(down, 0.0)
    if level is None or level.value is None or level.value <= 0 or (x, y) == (0.0, 0.0):
        return None
    low, high = (None if bound is None else bound / rest for bound in (level.low, level.high))
    return Cut(x, y, level.value / rest, low, high)


def _power(surface: Surface, name: str) -> float:
    known = surface.coefficients.get(name)
    return known.value if known is not None and known.value is not None else 0.0


def _is_full(panel: Panel) -> bool:
    columns, rows = {dot.x for dot in panel.dots}, {dot.y for dot in panel.dots}
    return len({(dot.x, dot.y) for dot in panel.dots}) == len(columns) * len(rows)
