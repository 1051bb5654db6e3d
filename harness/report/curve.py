"""The curve of one quantile along an axis: bands, breakpoints, open bounds.

One line for each path with its interval as a band, the median as a thin dashed line below it, each
breakpoint's location interval as a shaded strip with its label above the plot. A bound that is open
is drawn as an arrow that fades out, never as a number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure

from harness.report import grid, quantity, words
from harness.report.palette import stand_in
from harness.report.quantity import Unit
from harness.report.schema import Breakpoint, Cell, Estimate, MetricName, Quantile
from harness.report.svg import canvas
from harness.report.text import line, short

MARKERS: Final = {"baseline": "o", "accelerated": "s", "measured": "o"}
LOG_X_FROM: Final = 8.0
LOG_Y_FROM: Final = 25.0
_FADE: Final = (0.9, 0.65, 0.42, 0.22, 0.1)
_LABEL_ROW_PX: Final = 19.0
_ARROW_PX: Final = 54.0
_MAX_BREAKS: Final = 4


@dataclass(frozen=True)
class Size:
    """How large a picture is and how much room its letters take, in CSS pixels."""

    width: float
    height: float
    has_line_labels: bool
    font: float = 12.0


@dataclass(frozen=True)
class Point:
    """One cell on the curve; x is its place on the axis."""

    x: float
    tail: Estimate | None
    median: Estimate | None
    is_valid: bool


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
    ticks = _axis_places(facet)
    series = {path: _points(cells, facet, metric, quantile) for path, cells in facet.paths.items()}
    breaks = shown_breaks(facet, metric, quantile)
    top_px = 30 + _LABEL_ROW_PX * len(breaks)
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
    unit = _set_y(
        axes,
        [
            point
            for other in beside
            for cells in other.paths.values()
            for point in _points(cells, other, metric, quantile)
        ],
    )
    _set_x(axes, ticks, plot_px[0], size)
    _frame(axes, size)
    for row, breakpoint_ in enumerate(breaks):
        _draw_break(axes, breakpoint_, row, plot_px, size)
    for path, points in series.items():
        _draw_series(axes, path, points, unit)
    if size.has_line_labels:
        _label_lines(axes, series, unit, plot_px[1], size)
    name = f"{words.METRICS[metric]} {quantile.upper()}, {unit.name}"
    top = 1 + (12 + _LABEL_ROW_PX * len(breaks)) / plot_px[1]
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


def _axis_places(facet: grid.Facet) -> dict[Any, float]:
    """Place on x of each value of the axis: itself, or its rank where it is no number."""
    values = dict.fromkeys(cell.factors[facet.axis] for cell in facet.cells)
    if all(map(grid.is_number, values)):
        return {value: float(value) for value in sorted(values, key=float)}
    return {value: float(i) for i, value in enumerate(values)}


def _points(
    cells: Sequence[Cell], facet: grid.Facet, metric: MetricName, quantile: Quantile
) -> list[Point]:
    places = _axis_places(facet)
    return [
        Point(
            places[cell.factors[facet.axis]],
            cell.metrics.get(metric, {}).get(quantile),
            cell.metrics.get(metric, {}).get("p50") if quantile != "p50" else None,
            cell.state not in {"invalid-client", "failed"},
        )
        for cell in cells
    ]


def _set_y(axes: Any, points: list[Point]) -> Unit:
    tails = [p.tail for p in points if p.tail]
    medians = [p.median for p in points if p.median]
    finite = [
        bound for e in (*tails, *medians) for bound in (e.value, e.low, e.high) if bound is not None
    ]
    largest = max(finite)
    unit = quantity.shared_unit(largest)
    lines = [e.value for e in (*tails, *medians) if e.value is not None and e.value > 0]
    smallest = min(lines) if lines else largest
    has_open = any(e.high is None and (e.value or e.low) is not None for e in tails)
    room = 1.22 if has_open else 1.07
    if min(finite) > 0 and lines and max(lines) / smallest >= LOG_Y_FROM:
        axes.set_yscale("log")
        low = min(finite) * unit.per_second / 1.25
        high = largest * unit.per_second * (1.6 if has_open else 1.25)
        axes.set_ylim(low, high)
        _log_ticks(axes, low, high)
    else:
        top = largest * unit.per_second * room or 1.0
        axes.set_ylim(0, top)
        step = _nice_step(top / 5)
        ticks = [i * step for i in range(int(top / step) + 1)]
        decimals = max(0, -math.floor(math.log10(step)))
        axes.set_yticks(ticks, [quantity.fixed(tick, decimals) for tick in ticks])
    axes.minorticks_off()
    return unit


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def _log_ticks(axes: Any, low: float, high: float) -> None:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) < 5 else (1,)
    ticks = [m * 10.0**p for p in powers for m in steps if low <= m * 10.0**p <= high]
    axes.set_yticks(ticks, [quantity.number(tick) for tick in ticks])


def _set_x(axes: Any, places: dict[Any, float], width_px: float, size: Size) -> None:
    xs = list(places.values())
    first, last = min(xs), max(xs)
    if first > 0 and last / first >= LOG_X_FROM:
        axes.set_xscale("log")
        pad = (last / first) ** 0.035
        axes.set_xlim(first / pad, last * pad)
    else:
        pad = (last - first) * 0.035 or 0.5
        axes.set_xlim(first - pad, last + pad)
    axes.minorticks_off()
    labels = []
    taken_to = -math.inf
    for value, x in places.items():
        text = short(quantity.factor_value(value), 12)
        half = 0.32 * size.font * len(text) + 4
        at = _fraction(axes, x) * width_px
        fits = at - half >= taken_to
        labels.append(text if fits else "")
        taken_to = at + half if fits else taken_to
    axes.set_xticks(xs, labels)


def _fraction(axes: Any, x: float) -> float:
    """Place of x between the left (0) and the right (1) edge of the plot."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        return math.log(x / low) / math.log(high / low) if x > 0 else 0.0
    return float((x - low) / (high - low))


def _frame(axes: Any, size: Size) -> None:
    axes.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(stand_in("muted"))
    axes.spines["bottom"].set_linewidth(1)
    axes.tick_params(axis="both", colors=stand_in("muted"), labelsize=size.font, width=1)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.tick_params(axis="x", length=5, pad=4)
    axes.grid(visible=True, axis="y", color=stand_in("line"), linewidth=1)
    axes.set_axisbelow(True)


def _draw_break(
    axes: Any, breakpoint_: Breakpoint, row: int, plot_px: tuple[float, float], size: Size
) -> None:
    colour = stand_in(words.path_of(breakpoint_.at))
    left, right = (0.0, 1.0)
    low, high = breakpoint_.low, breakpoint_.high
    if low is not None:
        left = _fraction(axes, low)
    if high is not None:
        right = _fraction(axes, high)
    if low is None and high is None and breakpoint_.location is not None:
        left = right = _fraction(axes, breakpoint_.location)
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
        1 + (7 + _LABEL_ROW_PX * row) / plot_px[1],
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


def _draw_series(axes: Any, path: str, points: list[Point], unit: Unit) -> None:
    colour = stand_in(path)
    scale = unit.per_second
    _draw_band(axes, points, scale, colour)
    medians = [_or_nan(p.median, scale) for p in points]
    xs = [p.x for p in points]
    if not all(map(math.isnan, medians)):
        axes.plot(xs, medians, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), alpha=0.9)
    tails = [_or_nan(p.tail, scale) for p in points]
    axes.plot(xs, tails, color=colour, linewidth=2.25, solid_joinstyle="round")
    for point in points:
        if point.tail is not None:
            _draw_marker(axes, path, point, scale, colour)


def _draw_band(axes: Any, points: list[Point], scale: float, colour: str) -> None:
    run: list[tuple[float, float, float]] = []
    for point in (*points, None):
        tail = point.tail if point else None
        if point and tail and tail.low is not None and tail.high is not None:
            run.append((point.x, tail.low * scale, tail.high * scale))
            continue
        if len(run) > 1:
            xs, lows, highs = zip(*run, strict=True)
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.18, linewidth=0)
        elif run:
            x, low, high = run[0]
            axes.plot([x, x], [low, high], color=colour, linewidth=5, alpha=0.3)
        run = []


def _draw_marker(axes: Any, path: str, point: Point, scale: float, colour: str) -> None:
    tail = point.tail
    assert tail is not None
    anchor = tail.value if tail.value is not None else tail.low
    if anchor is not None:
        fill = stand_in("paper") if tail.value is None or not point.is_valid else colour
        edge = colour if point.is_valid else stand_in("muted")
        axes.plot(
            [point.x], [anchor * scale], marker=MARKERS[path], markersize=7, color=fill,
            markeredgecolor=edge, markeredgewidth=1.5, linestyle="none", zorder=4,
        )  # fmt: skip
    if tail.high is None and anchor is not None:
        _fading_arrow(axes, point.x, anchor * scale, axes.get_ylim()[1], colour)
    base = tail.value if tail.value is not None else tail.high
    if tail.low is None and base is not None:
        _fading_arrow(axes, point.x, base * scale, axes.get_ylim()[0], colour)


def _fading_arrow(axes: Any, x: float, start: float, end: float, colour: str) -> None:
    """From a point towards an open side: five strokes, each fainter, then a head."""
    transform = axes.transData + axes.transAxes.inverted()
    at, first = (float(v) for v in transform.transform((x, start)))
    reach = _ARROW_PX / (axes.bbox.height or 1.0)
    last = min(0.97, first + reach) if end > start else max(0.03, first - reach)
    steps = len(_FADE)
    for i, alpha in enumerate(_FADE):
        ys = [first + (last - first) * k / steps for k in (i, i + 1)]
        axes.plot(
            [at, at], ys, transform=axes.transAxes, color=colour, linewidth=2, alpha=alpha,
            solid_capstyle="butt",
        )  # fmt: skip
    axes.plot(
        [at], [last], transform=axes.transAxes, color=colour, alpha=0.6, markersize=7,
        marker="^" if end > start else "v", markeredgewidth=0,
    )  # fmt: skip


def _label_lines(
    axes: Any, series: dict[str, list[Point]], unit: Unit, height_px: float, size: Size
) -> None:
    ends: list[tuple[float, str]] = []
    for path, points in series.items():
        known = [(p.x, p.tail.value) for p in points if p.tail and p.tail.value is not None]
        if known:
            x, value = known[-1]
            place = (axes.transData + axes.transAxes.inverted()).transform(
                (x, value * unit.per_second)
            )
            ends.append((float(place[1]) * height_px, path))
    lowest = -math.inf
    for y, path in sorted(ends):
        y_px = max(y, lowest)
        lowest = y_px + size.font * 1.5
        axes.text(
            1 + 4 / (size.width - 144),
            y_px / height_px,
            path,
            transform=axes.transAxes,
            va="center",
            color=stand_in(path),
            fontsize=size.font,
            fontweight="bold",
        )


def _or_nan(estimate: Estimate | None, scale: float) -> float:
    if estimate is None or estimate.value is None:
        return math.nan
    return estimate.value * scale
