"""The axes of a curve: scales, ticks, frame, and the place of a value between the edges."""

import math
from dataclasses import dataclass
from typing import Any, Final

from harness.report import grid, quantity
from harness.report.palette import stand_in
from harness.report.quantity import Unit
from harness.report.schema import Estimate
from harness.report.text import short

LOG_X_FROM: Final = 8.0
LOG_Y_FROM: Final = 25.0


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


def axis_places(facet: grid.Facet) -> dict[Any, float]:
    """Place on x of each value of the axis: itself, or its rank where it is no number."""
    values = dict.fromkeys(cell.factors[facet.axis] for cell in facet.cells)
    if all(map(grid.is_number, values)):
        return {value: float(value) for value in sorted(values, key=float)}
    return {value: float(i) for i, value in enumerate(values)}


def set_y(axes: Any, points: list[Point]) -> Unit:
    """Set scale, range and ticks of y for these points; return the unit of its numbers."""
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


def set_range(axes: Any, name: str, first: float, last: float, *, margin: float) -> None:
    """Set scale and range of the axis of this name, a share of its length free on both sides."""
    set_scale, set_limits = (getattr(axes, f"set_{name}{what}") for what in ("scale", "lim"))
    if first > 0 and last / first >= LOG_X_FROM:
        set_scale("log")
        pad = (last / first) ** margin
        set_limits(first / pad, last * pad)
    else:
        pad = (last - first) * margin or 0.5
        set_limits(first - pad, last + pad)


def set_x(axes: Any, places: dict[Any, float], width_px: float, size: Size) -> None:
    """Set scale, range and ticks of x; labels that would touch are left out."""
    xs = list(places.values())
    first, last = min(xs), max(xs)
    set_range(axes, "x", first, last, margin=0.035)
    axes.minorticks_off()
    labels = []
    taken_to = -math.inf
    for value, x in places.items():
        text = short(quantity.factor_value(value), 12)
        half = 0.32 * size.font * len(text) + 4
        at = fraction(axes, x) * width_px
        fits = at - half >= taken_to
        labels.append(text if fits else "")
        taken_to = at + half if fits else taken_to
    axes.set_xticks(xs, labels)


def fraction(axes: Any, x: float) -> float:
    """Place of x between the left (0) and the right (1) edge of the plot."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        return math.log(x / low) / math.log(high / low) if x > 0 else 0.0
    return float((x - low) / (high - low))


def draw_frame(axes: Any, size: Size) -> None:
    """Leave a bottom line and faint horizontal rules."""
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
