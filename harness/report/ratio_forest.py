"""Ratios to the baseline as dots and whiskers: a row for each cell or set of features.

One panel for each metric, all on one logarithmic scale around 1. A full dot is the asked quantile,
a hollow one below it the median. Left of the line is faster; whatever crosses it is grey.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure

from harness.report import quantity, words
from harness.report.palette import stand_in
from harness.report.schema import ComparedMetric, ComparedWord, MetricName
from harness.report.svg import canvas

LEAST: Final = 1 / 64
"""The scale ends here, and at its inverse; what lies beyond stands at its edge."""
_ROLES: Final[dict[ComparedWord, str]] = {"faster": "good", "slower": "bad"}
_LABEL_PX: Final = 208.0
_GAP_PX: Final = 26.0
_ROW_PX: Final = 34.0
_NARROW_ROW_PX: Final = 50.0  # the name stands above its whiskers
_HEAD_PX: Final = 24.0
_TOP_PX: Final = 30.0
_BOTTOM_PX: Final = 28.0
_APART_PX: Final = 6.5
_TICKS: Final = (
    (1.5, (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)),
    (2.5, (0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5)),
    (5.0, (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)),
    (math.inf, (1 / 32, 1 / 8, 0.5, 1.0, 2.0, 8.0, 32.0)),
)


@dataclass(frozen=True)
class ForestRow:
    """One row: its name, and its ratios by metric and quantile."""

    label: str
    items: tuple[ComparedMetric, ...]
    is_indented: bool = False


@dataclass(frozen=True)
class ForestGroup:
    """Rows below one heading, which may be empty."""

    heading: str
    rows: tuple[ForestRow, ...]


@dataclass(frozen=True)
class Forest:
    """What is drawn: the panels' metrics, the asked quantile and the median, the rows."""

    metrics: tuple[MetricName, ...]
    quantiles: tuple[float, ...]
    groups: tuple[ForestGroup, ...]

    @property
    def rows(self) -> list[ForestRow]:
        """All rows, group by group."""
        return [row for group in self.groups for row in group.rows]


def draw_forest(forest: Forest, width: float, font: float = 12.0) -> Figure:
    """The panels beside each other, or on a narrow screen below each other."""
    is_narrow = width < 480
    n = len(forest.metrics)
    rows_px = sum(_group_px(group, is_narrow=is_narrow) for group in forest.groups)
    panel_px = _TOP_PX + rows_px + _BOTTOM_PX
    height = panel_px * n if is_narrow else panel_px
    left_px = 0.0 if is_narrow else _LABEL_PX
    plot_px = width - 16 if is_narrow else (width - left_px - 8) / n - _GAP_PX
    figure = canvas(width, height)
    scale = _scale(forest)
    for i, metric in enumerate(forest.metrics):
        x_px = 8.0 if is_narrow else left_px + i * (plot_px + _GAP_PX) + _GAP_PX / 2
        bottom_px = height - (i + 1) * panel_px if is_narrow else 0.0
        low_px = bottom_px + _BOTTOM_PX
        axes = figure.add_axes((x_px / width, low_px / height, plot_px / width, rows_px / height))
        _frame(axes, scale, rows_px, font, words.METRICS[metric])
        _draw_rows(axes, forest, metric, plot_px, font, is_narrow=is_narrow, has_names=i == 0)
    return figure


def describe(forest: Forest) -> str:
    """The asked quantile of each row in words."""
    said = []
    for group in forest.groups:
        for row in group.rows:
            parts = [
                f"{words.metric_quantile(item.metric, item.q)} {text}, {item.verdict}"
                for item in row.items
                if item.q == forest.quantiles[0] and item.metric in forest.metrics
                if (text := quantity.ratio_interval(item.ratio, item.low, item.high))
            ]
            name = ", ".join(filter(None, (group.heading, row.label)))
            said.append(f"{name}: {'; '.join(parts) or 'no values'}.")
    return " ".join(said)


def _group_px(group: ForestGroup, *, is_narrow: bool) -> float:
    row_px = _NARROW_ROW_PX if is_narrow else _ROW_PX
    return (_HEAD_PX if group.heading else 0.0) + row_px * len(group.rows)


def _bounds(items: Iterable[ComparedMetric]) -> list[float]:
    known = (
        v for i in items for v in (i.ratio, quantity.told_ratio(i.low), quantity.told_ratio(i.high))
    )
    return [value for value in known if value is not None and value > 0]


def _scale(forest: Forest) -> tuple[float, float]:
    drawn = [
        item
        for row in forest.rows
        for item in row.items
        if item.metric in forest.metrics and item.q in forest.quantiles
    ]
    known = _bounds(drawn)
    low, high = max(LEAST, min([1.0, *known])), min(1 / LEAST, max([1.0, *known]))
    room = max((high / low) ** 0.06, 1.04)
    return low / room, high * room


def _frame(axes: Any, scale: tuple[float, float], rows_px: float, font: float, name: str) -> None:
    low, high = scale
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(rows_px, 0)
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([])
    ticks = next(ticks for limit, ticks in _TICKS if high / low <= limit)
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:.3g}" for tick in shown])
    axes.minorticks_off()
    axes.tick_params(axis="x", colors=stand_in("muted"), labelsize=font - 1, length=0, pad=5)
    axes.grid(visible=True, axis="x", color=stand_in("line"), linewidth=1)
    axes.axvline(1, color=stand_in("muted"), linewidth=1.4, linestyle=(0, (4, 3)))
    axes.set_axisbelow(True)
    axes.text(
        0, 1 + 10 / rows_px, name, transform=axes.transAxes, color=stand_in("ink"),
        fontsize=font + 1, fontweight="bold",
    )  # fmt: skip


def _draw_rows(
    axes: Any,
    forest: Forest,
    metric: MetricName,
    plot_px: float,
    font: float,
    *,
    is_narrow: bool,
    has_names: bool,
) -> None:
    row_px = _NARROW_ROW_PX if is_narrow else _ROW_PX
    left = 0.0 if is_narrow else -(_LABEL_PX + _GAP_PX / 2 - 2) / plot_px
    y = 0.0
    for group in forest.groups:
        if group.heading:
            if has_names or is_narrow:
                _write(axes, left, y + _HEAD_PX / 2 + 2, group.heading, font, is_bold=True)
            y += _HEAD_PX
        for row in group.rows:
            middle = y + row_px / 2 + (9 if is_narrow else 0)
            if has_names or is_narrow:
                indent = 14 / plot_px if row.is_indented else 0.0
                label_y = y + 10 if is_narrow else middle
                _write(axes, left + indent, label_y, row.label, font, is_bold=False)
            _draw_row(axes, row.items, metric, forest.quantiles, middle)
            y += row_px


def _write(axes: Any, x: float, y: float, text: str, font: float, *, is_bold: bool) -> None:
    axes.text(
        x, y, text, transform=axes.get_yaxis_transform(), va="center", clip_on=False,
        color=stand_in("ink"), fontsize=font, fontweight="bold" if is_bold else "normal",
    )  # fmt: skip


def _draw_row(
    axes: Any,
    items: Sequence[ComparedMetric],
    metric: MetricName,
    quantiles: Sequence[float],
    middle: float,
) -> None:
    """The asked quantile above the middle of the row, the median below it."""
    for number, q in enumerate(quantiles):
        item = next((i for i in items if (i.metric, i.q) == (metric, q)), None)
        if item is None or item.ratio is None:
            continue
        y = middle if len(quantiles) == 1 else middle + (2 * number - 1) * _APART_PX
        _draw_whisker(axes, item, item.ratio, y, is_asked=number == 0)


def _draw_whisker(
    axes: Any, item: ComparedMetric, ratio: float, y: float, *, is_asked: bool
) -> None:
    colour = stand_in(_ROLES.get(item.verdict, "muted"))
    first, last = axes.get_xlim()
    dot = min(max(ratio, first), last)
    line = {"color": colour, "linewidth": 2.4 if is_asked else 1.4, "solid_capstyle": "butt"}
    for bound, edge in ((item.low, first), (item.high, last)):
        known = quantity.told_ratio(bound)
        is_open = known is None or not first <= known <= last
        end = edge if is_open or known is None else known
        axes.plot([dot, end], [y, y], **line, alpha=0.3 if is_open else 1.0)
        if not is_open:
            axes.plot([end, end], [y - 3.5, y + 3.5], **line)
    axes.plot(
        [dot], [y], marker="o", markersize=7.5 if is_asked else 5.5, linestyle="none",
        color=colour if is_asked else stand_in("paper"), markeredgecolor=colour,
        markeredgewidth=1.4, zorder=4, clip_on=False,
    )  # fmt: skip
