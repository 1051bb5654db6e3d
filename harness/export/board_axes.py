"""What the panels of a picture share: colours, axes, names of series, and their times.

Series lie on the steps of the window, so that what a scrape has missed is a gap and no line.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, NullFormatter

from harness.export.board_queries import Json, Series, Window
from harness.export.board_units import told

INK: Final = "#24292f"
MUTED: Final = "#6b7480"
GRID: Final = "#e3e6ea"
NAMED: Final = {
    "green": "#1a7f5a", "orange": "#b26a00", "red": "#c0392b", "blue": "#0072b2", "text": INK,
    "transparent": "#eef0f3",
}  # fmt: skip
CYCLE: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31",
    "#5f6b7a", "#bcbd22", "#17365c", "#a0522d", "#7fc97f", "#f4a6c0",
)  # fmt: skip
PATHS: Final = {"baseline": "#0072b2", "accelerated": "#d55e00"}
BLUES: Final = LinearSegmentedColormap.from_list(
    "heat", ["#e8f1fa", "#7fb2d9", "#1c639d", "#0b3f70"]
)
NAME_PX: Final = 145
"""Room for a name and its value."""
NAME_LINES: Final = 3
TICKS: Final = (
    1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800,
    2_592_000,
)  # fmt: skip
"""Seconds between two marks on the axis of time."""
Found = list[tuple[str, Series]]
"""Series of a panel with their names."""


def draw_nothing(axes: Axes, word: str) -> None:
    """A word where a picture would be."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, word, ha="center", va="center", color=MUTED, transform=axes.transAxes)


def as_days(seconds: Any) -> Any:
    """Unix times as matplotlib's days."""
    return np.asarray(seconds, dtype=float) / 86_400


def time_axis(axes: Axes, window: Window) -> None:
    """The window below, a quiet grid behind."""
    axes.set_xlim(as_days([window.start])[0], as_days([window.end])[0])
    span = window.end - window.start
    step = next((step for step in TICKS if span <= 5 * step), TICKS[-1])
    axes.set_xticks(as_days(np.arange(math.ceil(window.start / step) * step, window.end, step)))
    is_long = span > 2 * 86_400
    axes.xaxis.set_major_formatter(dates.DateFormatter("%d %b" if is_long else "%H:%M:%S"))
    axes.tick_params(labelsize=7, colors=MUTED, length=2)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def value_axis(axes: Axes, defaults: Json, found: Found) -> None:
    """Values with their unit, from the panel's own minimum on."""
    unit = defaults["unit"]
    if defaults.get("min") is not None and axes.get_yscale() == "linear":
        axes.set_ylim(bottom=defaults["min"])
        if not has_positive(found):
            axes.set_ylim(top=1)
    axes.yaxis.set_major_formatter(lambda value, _: told(value, unit))
    if axes.get_yscale() == "log":
        log_ticks(axes)
    else:
        axes.locator_params(axis="y", nbins=4)


def log_ticks(axes: Axes) -> None:
    """1, 2 and 5 of each decade, so that less than a decade has names too."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def thresholds(axes: Axes, defaults: Json) -> None:
    """Lines where a judgement begins, if they are near what is shown."""
    top = axes.get_ylim()[1]
    for step in defaults["thresholds"]["steps"][1:]:
        if step["value"] <= top:
            axes.axhline(step["value"], color=NAMED[step["color"]], linestyle="--", linewidth=0.8)


def legend(axes: Axes, found: Found, colours: list[str], unit: str) -> None:
    """Names with their last values below, in as many columns as there is room for."""
    columns = max(2, int(axes.bbox.width / NAME_PX))
    room = columns * NAME_LINES
    for index, (name, series) in enumerate(found[:room]):
        last = next((v for v in reversed(series.values) if math.isfinite(v)), math.nan)
        text, colour = f"● {name or 'all'}  {told(last, unit)}", colours[index]
        if index == room - 1 and len(found) > room:
            text, colour = f"and {len(found) - room + 1} more", MUTED
        axes.annotate(
            text, (index % columns / columns, 0), (0, -25 - 11 * (index // columns)),
            xycoords="axes fraction", textcoords="offset points", fontsize=7,
            annotation_clip=False, color=colour,
        )  # fmt: skip


def colour_of(name: str, index: int) -> str:
    """A path's own colour, or the next of the cycle."""
    return next((c for word, c in PATHS.items() if word in name), CYCLE[index % len(CYCLE)])


def has_positive(found: Found) -> bool:
    """Whether there is anything that a logarithmic axis could show."""
    return any(value > 0 for _, series in found for value in series.values if math.isfinite(value))


def on_grid(series: Series, window: Window) -> Any:
    """The value at each step of the window; NaN where the series has none, so that a gap shows."""
    line = np.full(len(window.times), np.nan)
    at = np.rint((np.asarray(series.times) - window.start) / window.step_s).astype(int)
    inside = (at >= 0) & (at < len(line))
    line[at[inside]] = np.asarray(series.values)[inside]
    line[~np.isfinite(line)] = np.nan
    return line


def or_nothing(line: Any) -> Any:
    """Heights to lie on each other, of which no number is nothing."""
    return np.nan_to_num(line, nan=0.0)


def natural(name: str) -> list[tuple[int, str]]:
    """An order in which link 2 comes before link 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def without_host(names: list[str]) -> list[str]:
    """Names without the address that all of them begin with; it tells none from another."""
    hosts = {name.partition(" ")[0] for name in names}
    is_shared = len(hosts) == 1 and ":" in hosts.pop()
    return [name.partition(" ")[2] or name if is_shared else name for name in names]
