"""A breakpoint on a curve: a strip over its location interval, its label above the plot."""

from typing import Any, Final

from harness.report import grid, quantity, words
from harness.report.curve_axes import Size, fraction
from harness.report.palette import stand_in
from harness.report.schema import Breakpoint, MetricName, Quantile

LABEL_ROW_PX: Final = 19.0
_MAX_BREAKS: Final = 4


def shown_breaks(facet: grid.Facet, metric: MetricName, quantile: Quantile) -> list[Breakpoint]:
    """The breakpoints of this very quantile that have a place on the axis."""
    fits = [
        b
        for b in facet.breakpoints
        if b.metric == metric
        and words.quantile_name(b.q).lower() == quantile
        and words.is_found(b)
        and b.kind not in {"surface", "staircase"}
        and not (b.low is None and b.high is None and b.location is None)
    ]
    return fits[:_MAX_BREAKS]


def draw_break(
    axes: Any, breakpoint_: Breakpoint, row: int, plot_px: tuple[float, float], size: Size
) -> None:
    """Shade where the breakpoint lies and write its label in row `row` above the plot."""
    colour = stand_in(words.path_of(breakpoint_.at))
    left, right = (0.0, 1.0)
    low, high = breakpoint_.low, breakpoint_.high
    if low is not None:
        left = fraction(axes, low)
    if high is not None:
        right = fraction(axes, high)
    if low is None and high is None and breakpoint_.location is not None:
        left = right = fraction(axes, breakpoint_.location)
    edges = [edge for edge, bound in ((left, low), (right, high)) if bound is not None]
    left, right = max(0.0, min(left, 1.0)), max(0.0, min(right, 1.0))
    if right - left < 3 / plot_px[0]:
        middle = (left + right) / 2
        left, right = middle - 1.5 / plot_px[0], middle + 1.5 / plot_px[0]
    _shade(axes, left, right, (low is None, high is None), colour)
    for edge in edges:
        if 0 <= edge <= 1:  # a bound beyond the cells has no edge to show
            axes.plot(
                [edge, edge], [0, 1], transform=axes.transAxes, color=colour, linewidth=1,
                alpha=0.55, linestyle=(0, (3, 3)),
            )  # fmt: skip
    text = _break_label(breakpoint_, has_room=size.width >= 480)
    half = 0.31 * size.font * len(text) / plot_px[0]
    centre = max(half - 40 / plot_px[0], min((left + right) / 2, 1 - half))
    axes.text(
        centre,
        1 + (7 + LABEL_ROW_PX * row) / plot_px[1],
        text,
        transform=axes.transAxes,
        ha="center",
        color=colour,
        fontsize=size.font,
        fontweight="bold",
    )


def _shade(axes: Any, left: float, right: float, is_open: tuple[bool, bool], colour: str) -> None:
    """A strip over the interval; towards an open side it fades out."""
    n = 12 if any(is_open) and not all(is_open) else 1
    width = (right - left) / n
    for i in range(n):
        strength = 1.0
        if is_open == (True, False):
            strength = (i + 1) / n
        elif is_open == (False, True):
            strength = (n - i) / n
        start = left + i * width
        axes.fill(
            [start, start + width, start + width, start],
            [0, 0, 1, 1],
            transform=axes.transAxes,
            color=colour,
            alpha=0.15 * strength,
            linewidth=0,
        )


def _break_label(breakpoint_: Breakpoint, *, has_room: bool) -> str:
    low = quantity.OPEN if breakpoint_.low is None else words.axis_value(breakpoint_.low)
    high = quantity.OPEN if breakpoint_.high is None else words.axis_value(breakpoint_.high)
    interval = low if low == high else f"{low}{quantity.DASH}{high}"
    known = words.size(breakpoint_)
    size = f": {known}" if known else ""
    path = words.path_of(breakpoint_.at)
    before = f"{path} " if has_room and path != words.PATHS[None] else ""
    return f"{before}{words.KINDS[breakpoint_.kind]} {interval}{size}"
