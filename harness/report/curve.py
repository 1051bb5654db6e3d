"""The curve of one quantile along an axis: bands, breakpoints, open bounds.

One line for each path with its interval as a band, the median as a thin dashed line below it, each
breakpoint's location interval as a shaded strip with its label above the plot. A bound that is open
is drawn as an arrow that fades out, never as a number.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from harness.findings.finding import VOID
from harness.report import grid, quantity, words
from harness.report.curve_axes import Point, Size, axis_places, draw_frame, set_x, set_y
from harness.report.curve_break import LABEL_ROW_PX, draw_break, shown_breaks
from harness.report.curve_series import draw_series, label_lines
from harness.report.palette import stand_in
from harness.report.schema import Cell, MetricName, Quantile
from harness.report.svg import canvas
from harness.report.text import line, short


def draw_curve(
    facet: grid.Facet,
    metric: MetricName,
    quantile: Quantile,
    size: Size,
    beside: Sequence[grid.Facet],
) -> Figure:
    """The curves of a facet, on the y scale of all facets beside it.

    The caller has seen that there is something to draw.
    """
    ticks = axis_places(facet)
    series = {path: _points(cells, facet, metric, quantile) for path, cells in facet.paths.items()}
    breaks = shown_breaks(facet, metric, quantile)
    top_px = 30 + LABEL_ROW_PX * len(breaks)
    right_px = 92 if size.has_line_labels else 14
    left_px, bottom_px = 52, 48
    figure = canvas(size.width, size.height)
    axes = figure.add_axes(
        (
            left_px / size.width,
            bottom_px / size.height,
            1 - (left_px + right_px) / size.width,
            1 - (bottom_px + top_px) / size.height,
        )
    )
    plot_px = (size.width - left_px - right_px, size.height - bottom_px - top_px)
    unit = set_y(
        axes,
        [
            point
            for other in beside
            for cells in other.paths.values()
            for point in _points(cells, other, metric, quantile)
        ],
    )
    set_x(axes, ticks, plot_px[0], size)
    draw_frame(axes, size)
    for row, breakpoint_ in enumerate(breaks):
        draw_break(axes, breakpoint_, row, plot_px, size)
    for path, points in series.items():
        draw_series(axes, path, points, unit)
    if size.has_line_labels:
        label_lines(axes, series, unit, plot_px[1], size)
    name = f"{words.METRICS[metric]} {quantile.upper()}, {unit.name}"
    top = 1 + (12 + LABEL_ROW_PX * len(breaks)) / plot_px[1]
    axes.text(
        -(left_px - 6) / plot_px[0],
        top,
        name,
        transform=axes.transAxes,
        color=stand_in("ink"),
        fontsize=size.font,
        fontweight="bold",
    )
    axes.set_xlabel(short(facet.axis), color=stand_in("muted"), fontsize=size.font, labelpad=8)
    return figure


def has_data(facet: grid.Facet, metric: MetricName, quantile: Quantile) -> bool:
    """Whether any cell has a value or a bound to draw."""
    found = (cell.metrics.get(metric, {}).get(quantile) for cell in facet.cells)
    return any(e and (e.value, e.low, e.high) != (None, None, None) for e in found)


def describe(facet: grid.Facet, metric: MetricName, quantile: Quantile) -> str:
    """The curve in words, for readers who do not see it."""
    parts = []
    for path, cells in facet.paths.items():
        known = [
            (cell.factors[facet.axis], estimate.value)
            for cell in cells
            if (estimate := cell.metrics.get(metric, {}).get(quantile))
            and estimate.value is not None
        ]
        if not known:
            parts.append(f"{path}: no values.")
            continue
        texts = [f"{quantity.factor_value(x)}: {quantity.duration(y)}" for x, y in known[:24]]
        more = f", and {len(known) - 24} more" if len(known) > 24 else ""
        parts.append(f"{path}, by {short(facet.axis)}: {line(', '.join(texts), 900)}{more}.")
    parts += [words.sentence(b) for b in shown_breaks(facet, metric, quantile)]
    return " ".join(parts)


def _points(
    cells: Sequence[Cell], facet: grid.Facet, metric: MetricName, quantile: Quantile
) -> list[Point]:
    places = axis_places(facet)
    return [
        Point(
            places[cell.factors[facet.axis]],
            cell.metrics.get(metric, {}).get(quantile),
            cell.metrics.get(metric, {}).get("p50") if quantile != "p50" else None,
            cell.state not in VOID,
        )
        for cell in cells
    ]
