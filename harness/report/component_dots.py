"""The components behind a breakpoint, each with its share and the share's interval.

A component is called the cause only where its interval lies above one half, so the half is drawn.
"""

from typing import Any, Final

from matplotlib.figure import Figure

from harness.report import words
from harness.report.palette import stand_in
from harness.report.schema import Breakpoint, RankedComponent
from harness.report.svg import canvas

MAX_ROWS: Final = 8
_ROW_PX: Final = 30.0
_NARROW_ROW_PX: Final = 48.0  # the name stands above its whisker


def shown_components(breakpoint_: Breakpoint) -> list[RankedComponent]:
    """The first ranked components that have a share."""
    return [ranked for ranked in breakpoint_.ranked if ranked.share is not None][:MAX_ROWS]


def draw_components(breakpoint_: Breakpoint, width: float, font: float = 12.0) -> Figure:
    """One dot and whisker for each component; the caller has seen that there are some."""
    rows = shown_components(breakpoint_)
    is_narrow = width < 480
    row_px = _NARROW_ROW_PX if is_narrow else _ROW_PX
    left_px, right_px = (8.0, 8.0) if is_narrow else (176.0, 168.0)
    top_px, bottom_px = 4.0, 26.0
    rows_px = row_px * len(rows)
    height = top_px + bottom_px + rows_px
    figure = canvas(width, height)
    plot_px = width - left_px - right_px
    axes = figure.add_axes((left_px / width, bottom_px / height, plot_px / width, rows_px / height))
    _frame(axes, rows, rows_px, font)
    for i, ranked in enumerate(rows):
        is_cause = ranked.component == breakpoint_.component
        y = (i + 0.5) * row_px + (10 if is_narrow else 0)
        _draw_whisker(axes, ranked, y, is_cause=is_cause)
        left, right = (0.0, 1.0) if is_narrow else (-12 / plot_px, 1 + 10 / plot_px)
        text_y = y - 20 if is_narrow else y
        axes.text(
            left,
            text_y,
            words.phase_name(ranked.component),
            transform=axes.get_yaxis_transform(),
            ha="left" if is_narrow else "right",
            va="center",
            color=stand_in("ink"),
            fontsize=font,
            fontweight="bold" if is_cause else "normal",
        )
        axes.text(
            right,
            text_y,
            words.ranked_share(ranked) or "",
            transform=axes.get_yaxis_transform(),
            ha="right" if is_narrow else "left",
            va="center",
            color=stand_in("muted"),
            fontsize=font - 1,
        )
    return figure


def describe(breakpoint_: Breakpoint) -> str:
    """The ranked list in words."""
    parts = [
        f"{words.phase_name(ranked.component)}: {words.ranked_share(ranked)}"
        for ranked in shown_components(breakpoint_)
    ]
    return "Share of the rise. " + "; ".join(parts) + "."


def _frame(axes: Any, rows: list[RankedComponent], rows_px: float, font: float) -> None:
    known = [v for r in rows for v in (r.share, r.low, r.high) if v is not None]
    low, high = min(0.0, *known), max(1.0, *known)
    axes.set_xlim(low - 0.02, high + 0.02)
    axes.set_ylim(rows_px, 0)
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([])
    ticks = [0.0, 0.5, 1.0]
    axes.set_xticks(ticks, ["0 %", "50 %", "100 %"])
    labels = axes.get_xticklabels()
    if rows_px / len(rows) > _ROW_PX:
        labels[0].set_ha("left")
        labels[-1].set_ha("right")
    axes.tick_params(axis="x", colors=stand_in("muted"), labelsize=font - 1, length=0, pad=5)
    axes.axvline(0, color=stand_in("line"), linewidth=1)
    axes.axvline(1, color=stand_in("line"), linewidth=1)
    axes.axvline(0.5, color=stand_in("muted"), linewidth=1.2, linestyle=(0, (4, 3)))


def _draw_whisker(axes: Any, ranked: RankedComponent, y: float, *, is_cause: bool) -> None:
    assert ranked.share is not None
    colour = stand_in("ink" if is_cause else "muted")
    low = axes.get_xlim()[0] if ranked.low is None else ranked.low
    high = axes.get_xlim()[1] if ranked.high is None else ranked.high
    whisker = {"color": colour, "linewidth": 2.5 if is_cause else 1.6, "solid_capstyle": "butt"}
    for start, end, bound in ((ranked.share, low, ranked.low), (ranked.share, high, ranked.high)):
        if bound is None:
            axes.plot([start, end], [y, y], **{**whisker, "alpha": 0.3})
        else:
            axes.plot([start, end], [y, y], **whisker)
            axes.plot([end, end], [y - 5, y + 5], **whisker)
    axes.plot(
        [ranked.share], [y], marker="o", markersize=9 if is_cause else 7, linestyle="none",
        color=colour if is_cause else stand_in("paper"), markeredgecolor=colour,
        markeredgewidth=1.6, zorder=4,
    )  # fmt: skip
