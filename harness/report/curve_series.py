"""One path on a curve: its line, its band, its markers, arrows towards open bounds, its name."""

import math
from typing import Any, Final

from harness.report.curve_axes import Point, Size
from harness.report.palette import stand_in
from harness.report.quantity import Unit
from harness.report.schema import Estimate

MARKERS: Final = {"baseline": "o", "accelerated": "s", "measured": "o"}
_FADE: Final = (0.9, 0.65, 0.42, 0.22, 0.1)
_ARROW_PX: Final = 54.0


def draw_series(axes: Any, path: str, points: list[Point], unit: Unit) -> None:
    """Draw a path: median, tail, interval band and markers."""
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


def label_lines(
    axes: Any, series: dict[str, list[Point]], unit: Unit, height_px: float, size: Size
) -> None:
    """Name each path at the right end of its line; names never overlap."""
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
