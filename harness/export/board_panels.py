"""How each kind of panel is drawn, onto one matplotlib axes each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, NullFormatter

from harness.export.board_queries import Json, Series, Window, name_of
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
    "#5f6b7a", "#bcbd22",
)  # fmt: skip
PATHS: Final = {"baseline": "#0072b2", "accelerated": "#d55e00"}
BLUES: Final = LinearSegmentedColormap.from_list(
    "heat", ["#e8f1fa", "#7fb2d9", "#1c639d", "#0b3f70"]
)
MAX_NAMES: Final = 6
Found = list[tuple[str, Series]]
"""Series of a panel with their names."""


def draw_panel(
    axes: Axes, panel: Json, answers: dict[str, Sequence[Series]], window: Window
) -> None:
    """Draw a panel; where nothing came, its own word for that stands there."""
    found: Found = [
        (name_of(target["legendFormat"], series.labels), series)
        for target in panel["targets"]
        for series in answers.get(target["refId"], ())
    ]
    found.sort(key=lambda each: _natural(each[0]))
    if not found and panel["type"] != "stat":
        _empty(axes, panel["fieldConfig"]["defaults"]["noValue"] or "no data")
        return
    _DRAW[panel["type"]](axes, panel, found, window)


def _natural(name: str) -> list[tuple[int, str]]:
    """An order in which link 2 comes before link 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _empty(axes: Axes, word: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, word, ha="center", va="center", color=MUTED, transform=axes.transAxes)


def _graph(axes: Axes, panel: Json, found: Found, window: Window) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    style = defaults["custom"]
    colours = [_colour(name, index) for index, (name, _) in enumerate(found)]
    if style["stacking"]["mode"] == "normal":
        times = np.unique(np.concatenate([np.asarray(series.times) for _, series in found]))
        heights = [
            np.interp(times, series.times, _finite(series), left=0, right=0) for _, series in found
        ]
        axes.stackplot(_days(times), *heights, colors=colours, alpha=0.85, linewidth=0)
    else:
        for (_, series), colour in zip(found, colours, strict=True):
            values = np.asarray(series.values)
            many = len(values) > 30 and style["showPoints"] != "always"
            axes.plot(
                _days(series.times), np.where(np.isfinite(values), values, np.nan), color=colour,
                linewidth=1.3, marker="" if many else ".", markersize=4,
            )  # fmt: skip
    if style["scaleDistribution"]["type"] == "log" and _has_positive(found):
        axes.set_yscale("log")
    _thresholds(axes, defaults)
    _time_axis(axes, window)
    _value_axis(axes, defaults, found)
    _legend(axes, found, colours, defaults["unit"])


def _has_positive(found: Found) -> bool:
    return any(value > 0 for _, series in found for value in series.values if math.isfinite(value))


def _colour(name: str, index: int) -> str:
    return next((c for word, c in PATHS.items() if word in name), CYCLE[index % len(CYCLE)])


def _thresholds(axes: Axes, defaults: Json) -> None:
    """Lines where a judgement begins, if they are near what is shown."""
    top = axes.get_ylim()[1]
    for step in defaults["thresholds"]["steps"][1:]:
        if step["value"] <= top:
            axes.axhline(step["value"], color=NAMED[step["color"]], linestyle="--", linewidth=0.8)


def _time_axis(axes: Axes, window: Window) -> None:
    axes.set_xlim(_days([window.start])[0], _days([window.end])[0])
    locator = dates.AutoDateLocator(minticks=3, maxticks=5)
    is_long = window.end - window.start > 2 * 86_400
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.DateFormatter("%d %b" if is_long else "%H:%M:%S"))
    axes.tick_params(labelsize=7, colors=MUTED, length=2)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def _value_axis(axes: Axes, defaults: Json, found: Found) -> None:
    unit = defaults["unit"]
    if defaults["min"] is not None and axes.get_yscale() == "linear":
        axes.set_ylim(bottom=defaults["min"])
        if not _has_positive(found):
            axes.set_ylim(top=1)
    axes.yaxis.set_major_formatter(lambda value, _: told(value, unit))
    if axes.get_yscale() == "log":
        _log_ticks(axes)
    else:
        axes.locator_params(axis="y", nbins=4)


def _log_ticks(axes: Axes) -> None:
    """1, 2 and 5 of each decade, so that less than a decade has names too."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(axes: Axes, found: Found, colours: list[str], unit: str) -> None:
    """Names with their last values, in two columns below."""
    for index, (name, series) in enumerate(found[:MAX_NAMES]):
        last = next((v for v in reversed(series.values) if math.isfinite(v)), math.nan)
        text = f"{name or 'all'}  {told(last, unit)}"
        if index == MAX_NAMES - 1 and len(found) > MAX_NAMES:
            text = f"and {len(found) - MAX_NAMES + 1} more"
        axes.annotate(
            f"● {text}" if not text.startswith("and ") else text,
            (0.5 * (index % 2), 0), (0, -25 - 11 * (index // 2)), xycoords="axes fraction",
            textcoords="offset points", fontsize=7, annotation_clip=False,
            color=MUTED if text.startswith("and ") else colours[index],
        )  # fmt: skip


def _stat(axes: Axes, panel: Json, found: Found, _: Window) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_axis_off()
    shown = [(name, series.values[-1]) for name, series in found if len(series.values)]
    if not shown or not any(math.isfinite(value) for _, value in shown):
        _empty(axes, defaults["noValue"] or "no data")
        return
    for index, (name, value) in enumerate(shown[:3]):
        text, colour = _judged(value, defaults)
        x = (index + 0.5) / min(len(shown), 3)
        size = 20 if len(shown) == 1 else 13
        axes.text(x, 0.5, text, ha="center", va="center", fontsize=size, color=colour)
        if len(shown) > 1:
            axes.text(x, 0.12, name or "all", ha="center", va="center", fontsize=7, color=MUTED)


def _judged(value: float, defaults: Json) -> tuple[str, str]:
    """Words and colour of a value."""
    for mapping in defaults["mappings"]:
        if f"{value:g}" in mapping["options"]:
            hit = mapping["options"][f"{value:g}"]
            return hit["text"], NAMED[hit["color"]]
    steps = defaults["thresholds"]["steps"]
    colour = [s["color"] for s in steps if s["value"] is None or value >= s["value"]][-1]
    return told(value, defaults["unit"]), NAMED[colour]


def _heat(axes: Axes, panel: Json, found: Found, window: Window) -> None:
    """Cumulative buckets become their own counts; empty ones stay white."""
    rows = sorted(
        ((bound, s) for _, s in found if math.isfinite(bound := _bound(s))),
        key=lambda row: row[0],
    )
    times = np.unique(np.concatenate([np.asarray(s.times) for _, s in rows]))
    table = np.array([np.interp(times, s.times, _finite(s), left=0, right=0) for _, s in rows])
    counts = np.clip(np.diff(table, axis=0, prepend=0.0), 0.0, None)
    used = np.flatnonzero((counts > 1e-9).any(axis=1))
    if not used.size or len(times) < 2:
        _empty(axes, "no data")
        return
    low, high = max(0, used[0] - 1), used[-1] + 1
    bounds = np.array([bound for bound, _ in rows])
    edges = np.concatenate([[bounds[0] / 2], bounds])
    shown = np.ma.masked_less(counts[low:high] ** 0.5, 1e-6)
    step = times[1] - times[0]
    across = _days(np.append(times, times[-1] + step) - step / 2)
    axes.pcolormesh(across, edges[low : high + 1], shown, cmap=BLUES, rasterized=True)
    axes.set_yscale("log")
    _time_axis(axes, window)
    unit = panel["options"]["yAxis"]["unit"]
    axes.yaxis.set_major_formatter(lambda value, _: told(value, unit))
    _log_ticks(axes)


def _bound(series: Series) -> float:
    """A bucket's upper bound; infinite for the last, and for what is no number."""
    try:
        return float(series.labels.get("le", "inf"))
    except ValueError:
        return math.inf


def _finite(series: Series) -> Any:
    """Values to lie on each other, of which no number is nothing."""
    return np.nan_to_num(np.asarray(series.values), nan=0.0, posinf=0.0, neginf=0.0)


def _table(axes: Axes, panel: Json, found: Found, _: Window) -> None:
    axes.set_axis_off()
    columns: dict[str, str] = panel["transformations"][0]["options"]["renameByName"]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    room = int(panel["gridPos"]["h"] * 1.6) - 1
    rows = [
        [told(s.values[-1], unit) if c == "Value" else s.labels.get(c, "") for c in columns]
        for _, s in found
    ]
    shown = sorted(rows)[:room]
    drawn = axes.table(
        [[cell[:28] for cell in row] for row in shown], colLabels=list(columns.values()),
        cellLoc="left", colLoc="left", loc="upper left", edges="horizontal",
    )  # fmt: skip
    drawn.auto_set_font_size(value=False)
    drawn.set_fontsize(7)
    for (row, _column), cell in drawn.get_celld().items():
        cell.set_edgecolor(GRID)
        cell.set_text_props(color=MUTED if row == 0 else INK)
    if len(rows) > len(shown):
        axes.text(
            1, -0.02, f"and {len(rows) - len(shown)} more", ha="right", fontsize=7, color=MUTED
        )


def _states(axes: Axes, panel: Json, found: Found, window: Window) -> None:
    options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    shown = sorted(found, key=lambda each: each[0])[:12]
    for row, (_, series) in enumerate(shown):
        at = _days(series.times)
        width = (at[1] - at[0]) if len(at) > 1 else _days([window.step_s])[0]
        for value, hit in options.items():
            spans = [
                (t, width) for t, v in zip(at, series.values, strict=True) if f"{v:g}" == value
            ]
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=NAMED[hit["color"]], linewidth=0)
    axes.set_yticks(range(len(shown)), [name[:26] for name, _ in shown])
    axes.set_ylim(max(len(shown), 4) - 0.5, -0.5)
    _time_axis(axes, window)


def _days(seconds: Any) -> Any:
    """Unix times as matplotlib's days."""
    return np.asarray(seconds, dtype=float) / 86_400


_DRAW: Final[dict[str, Callable[[Axes, Json, Found, Window], None]]] = {
    "timeseries": _graph,
    "stat": _stat,
    "heatmap": _heat,
    "table": _table,
    "state-timeline": _states,
}
