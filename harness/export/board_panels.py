"""How each kind of panel is drawn, onto one matplotlib axes each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from harness.export.board_axes import (
    BLUES,
    GRID,
    INK,
    MUTED,
    NAMED,
    Found,
    as_days,
    colour_of,
    draw_nothing,
    has_positive,
    legend,
    log_ticks,
    natural,
    on_grid,
    or_nothing,
    thresholds,
    time_axis,
    value_axis,
    without_host,
)
from harness.export.board_queries import Json, Series, Window, name_of
from harness.export.board_units import told


def draw_panel(
    axes: Axes, panel: Json, answers: dict[str, Sequence[Series]], window: Window
) -> None:
    """Draw a panel; where nothing came, its own word for that stands there."""
    named = [
        (name_of(target["legendFormat"], series.labels), series)
        for target in panel["targets"]
        for series in answers.get(target["refId"], ())
    ]
    names = without_host([name for name, _ in named])
    found: Found = [(name, series) for name, (_, series) in zip(names, named, strict=True)]
    found.sort(key=lambda each: natural(each[0]))
    if not found and panel["type"] != "stat":
        draw_nothing(axes, panel["fieldConfig"]["defaults"].get("noValue") or "no data")
        return
    _DRAW[panel["type"]](axes, panel, found, window)


def _graph(axes: Axes, panel: Json, found: Found, window: Window) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    style = defaults["custom"]
    colours = [colour_of(name, index) for index, (name, _) in enumerate(found)]
    days = as_days(window.times)
    lines = [on_grid(series, window) for _, series in found]
    if style["stacking"]["mode"] == "normal":
        axes.stackplot(days, *map(or_nothing, lines), colors=colours, alpha=0.85, linewidth=0)
    elif style["showPoints"] == "always":
        for (_, series), colour in zip(found, colours, strict=True):
            axes.plot(as_days(series.times), series.values, color=colour, marker=".", linewidth=1)
    else:
        for line, colour in zip(lines, colours, strict=True):
            alone = "." if np.isfinite(line).sum() < 30 else ""
            axes.plot(days, line, color=colour, linewidth=1.3, marker=alone, markersize=4)
    if style["scaleDistribution"]["type"] == "log" and has_positive(found):
        axes.set_yscale("log")
    thresholds(axes, defaults)
    time_axis(axes, window)
    value_axis(axes, defaults, found)
    legend(axes, found, colours, defaults["unit"])


def _stat(axes: Axes, panel: Json, found: Found, _: Window) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_axis_off()
    shown = [(name, series.values[-1]) for name, series in found if len(series.values)]
    if not shown or not any(math.isfinite(value) for _, value in shown):
        draw_nothing(axes, defaults.get("noValue") or "no data")
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
    times = np.asarray(window.times)
    table = np.array([or_nothing(on_grid(s, window)) for _, s in rows])
    counts = np.clip(np.diff(table, axis=0, prepend=0.0), 0.0, None)
    used = np.flatnonzero((counts > 1e-9).any(axis=1))
    if not used.size:
        draw_nothing(axes, "no data")
        return
    low, high = max(0, used[0] - 1), used[-1] + 1
    bounds = np.array([bound for bound, _ in rows])
    edges = np.concatenate([[bounds[0] / 2], bounds])
    shown = np.ma.masked_less(counts[low:high] ** 0.5, 1e-6)
    across = as_days(np.append(times, times[-1] + window.step_s) - window.step_s / 2)
    axes.pcolormesh(across, edges[low : high + 1], shown, cmap=BLUES, rasterized=True)
    axes.set_yscale("log")
    time_axis(axes, window)
    unit = panel["options"]["yAxis"]["unit"]
    axes.yaxis.set_major_formatter(lambda value, _: told(value, unit))
    log_ticks(axes)


def _bound(series: Series) -> float:
    """A bucket's upper bound; infinite for the last, and for what is no number."""
    try:
        return float(series.labels.get("le", "inf"))
    except ValueError:
        return math.inf


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
    cells = [[cell[:34] for cell in row] for row in shown]
    headings = list(columns.values())
    widths = [max(map(len, column)) + 2 for column in zip(headings, *cells, strict=True)]
    drawn = axes.table(
        cells, colLabels=headings, colWidths=[width / sum(widths) for width in widths],
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
        at = as_days(series.times)
        width = (at[1] - at[0]) if len(at) > 1 else as_days([window.step_s])[0]
        for value, hit in options.items():
            spans = [
                (t, width) for t, v in zip(at, series.values, strict=True) if f"{v:g}" == value
            ]
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=NAMED[hit["color"]], linewidth=0)
    axes.set_yticks(range(len(shown)), [name[:26] for name, _ in shown])
    axes.set_ylim(max(len(shown), 4) - 0.5, -0.5)
    time_axis(axes, window)


_DRAW: Final[dict[str, Callable[[Axes, Json, Found, Window], None]]] = {
    "timeseries": _graph,
    "stat": _stat,
    "heatmap": _heat,
    "table": _table,
    "state-timeline": _states,
}
