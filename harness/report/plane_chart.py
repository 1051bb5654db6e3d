"""The plane drawn true to scale: a mark for each cell, a line with its band for each surface.

A mark's colour is the map's; its shape is the cell's state, so that colour is never needed to
tell them apart.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from harness.report import words
from harness.report.curve_axes import Size, set_range, set_x
from harness.report.palette import stand_in
from harness.report.plane import Cut, Dot, Panel, Plane
from harness.report.quantity import factor_value
from harness.report.schema import CellState
from harness.report.svg import canvas
from harness.report.text import short

SHAPES: Final[dict[CellState, str]] = {
    "fixed": "o",
    "converged": "o",
    "wide": "D",
    "nonstationary": "^",
    "saturated": "^",
    "partial": "s",
    "invalid-client": "X",
    "failed": "X",
}
LINE_POINTS: Final = 200
LEFT, RIGHT, BOTTOM, TOP = 58.0, 14.0, 48.0, 22.0


def draw_plane(plane: Plane, panel: Panel, size: Size) -> Figure:
    """One panel; all panels have the same scales."""
    figure = canvas(size.width, size.height)
    plot = (size.width - LEFT - RIGHT, size.height - BOTTOM - TOP)
    axes = figure.add_axes(
        (LEFT / size.width, BOTTOM / size.height, plot[0] / size.width, plot[1] / size.height)
    )
    every = [dot for each in plane.panels for dot in each.dots]
    set_x(axes, {dot.x: dot.x for dot in sorted(every, key=lambda dot: dot.x)}, plot[0], size)
    _set_y(axes, sorted({dot.y for dot in every}), plot[1], size)
    _frame(axes, size)
    for cut in panel.cuts:
        _draw_cut(axes, cut)
    for dot in panel.dots:
        _draw_dot(axes, dot)
    axes.set_xlabel(short(plane.across), color=stand_in("muted"), fontsize=size.font, labelpad=8)
    axes.text(-(LEFT - 6) / plot[0], 1 + 10 / plot[1], short(plane.down),
              transform=axes.transAxes, color=stand_in("muted"), fontsize=size.font)  # fmt: skip
    return figure


def describe(plane: Plane, panel: Panel) -> str:
    """The plane in words, for readers who do not see it."""
    said = [words.sentence(found) for found in panel.breaks]
    cells = f"{len(panel.dots)} cells over {short(plane.across)} and {short(plane.down)}."
    return " ".join([cells, *said])


def _set_y(axes: Any, values: Sequence[float], height_px: float, size: Size) -> None:
    set_range(axes, "y", values[0], values[-1], margin=0.06)
    axes.minorticks_off()
    shown, taken_to = [], -1e9
    for value in values:
        at = axes.transAxes.inverted().transform(axes.transData.transform((1, value)))[1]
        fits = at * height_px >= taken_to
        shown.append(short(factor_value(value), 9) if fits else "")
        taken_to = at * height_px + size.font * 1.3 if fits else taken_to
    axes.set_yticks(list(values), shown)


def _frame(axes: Any, size: Size) -> None:
    axes.patch.set_visible(False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(stand_in("muted"))
    axes.tick_params(axis="both", colors=stand_in("muted"), labelsize=size.font, length=4)


def _draw_dot(axes: Any, dot: Dot) -> None:
    fill = stand_in("paper") if dot.step is None else stand_in(f"heat-{dot.step}")
    axes.plot(
        [dot.x], [dot.y], marker=SHAPES[dot.cell.state], markersize=13, linestyle="none",
        color=fill, markeredgecolor=stand_in("muted"), markeredgewidth=1, zorder=3,
    )  # fmt: skip


def _draw_cut(axes: Any, cut: Cut) -> None:
    """The line, and the band where both bounds of the level are known; clipped to the plane."""
    colour = stand_in("bad")
    limits_x, limits_y = axes.get_xlim(), axes.get_ylim()
    upright = cut.x_of(cut.level)
    low, high = cut.low, cut.high
    if upright is not None:
        axes.plot([upright, upright], limits_y, color=colour, linewidth=2, zorder=2)
        edges = [cut.x_of(bound) for bound in (low, high) if bound is not None]
        if len(edges) == 2 and None not in edges:
            axes.axvspan(*edges, color=colour, alpha=0.18, linewidth=0, zorder=1)
    else:
        start = max(limits_x[0], limits_x[1] * 1e-6)
        xs = np.geomspace(start, limits_x[1], LINE_POINTS)
        axes.plot(xs, _ys(cut, xs, cut.level), color=colour, linewidth=2, zorder=2)
        if low is not None and high is not None:
            axes.fill_between(xs, _ys(cut, xs, low), _ys(cut, xs, high),
                              color=colour, alpha=0.18, linewidth=0, zorder=1)  # fmt: skip
    axes.set_xlim(limits_x)
    axes.set_ylim(limits_y)


def _ys(cut: Cut, xs: Any, level: float) -> Any:
    return np.array([np.nan if (y := cut.y_at(x, level)) is None else y for x in xs])
