"""The components behind a breakpoint, each with its share and the share's interval.

A component is called the cause only where its interval lies above one half, so the half is drawn.
"""

from typing import Any, Final

from matplotlib.figure import Figure

from harness.report import quantity, words
from harness.report.palette import stand_in
from harness.report.schema import Breakpoint, RankedComponent
from harness.report.svg import canvas

MAX_ROWS: Final = 8
_ROW_PX: Final = 30.0


def shown_components(breakpoint_: Breakpoint) -> list[RankedComponent]:
    """The first ranked components that have a share."""
    return [ranked for ranked in breakpoint_.ranked if ranked.share is not None][:MAX_ROWS]


def draw_components(breakpoint_: Breakpoint, width: float, font: float = 12.0) -> Figure:
    """One dot and whisker for each component; the caller has seen that there are some."""
    rows = shown_components(breakpoint_)
    left_px, right_px, top_px, bottom_px = 176.0, 112.0, 20.0, 26.0
    if width < 480:
        left_px, right_px = 142.0, 22.0
    height = top_px + bottom_px + _ROW_PX * len(rows)
    figure = canvas(width, height)
    plot_px = width - left_px - right_px
    rows_px = _ROW_PX * len(rows)
    axes = figure.add_axes((left_px / width, bottom_px / height, plot_px / width, rows_px / height))
    _frame(axes, rows, font)
    axes.text(
        0.5, -7, "half", ha="center", color=stand_in("muted"), fontsize=font - 1,
        transform=axes.transData, clip_on=False,
    )  # fmt: skip
    for i, ranked in enumerate(rows):
        is_cause = ranked.component == breakpoint_.component
        _draw_row(axes, ranked, (i + 0.5) * _ROW_PX, plot_px, font, is_cause=is_cause)
        if width >= 480:
            axes.text(
                1 + 10 / plot_px, (i + 0.5) * _ROW_PX, words.ranked_share(ranked) or "",
                transform=axes.get_yaxis_transform(), va="center", color=stand_in("muted"),
                fontsize=font - 1,
            )  # fmt: skip
    return figure


def describe(breakpoint_: Breakpoint) -> str:
    """The ranked list in words."""
    parts = [
        f"{words.phase_name(ranked.component)}: {words.ranked_share(ranked)}"
        for ranked in shown_components(breakpoint_)
    ]
    return "Share of the rise. " + "; ".join(parts) + "."


def _frame(axes: Any, rows: list[RankedComponent], font: float) -> None:
    known = [v for r in rows for v in (r.share, r.low, r.high) if v is not None]
    low, high = min(0.0, *known), max(1.0, *known)
    axes.set_xlim(low - 0.02, high + 0.02)
    axes.set_ylim(_ROW_PX * len(rows), 0)
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([])
    ticks = [0.0, 0.5, 1.0]
    axes.set_xticks(ticks, ["0 %", "50 %", "100 %"])
    axes.tick_params(axis="x", colors=stand_in("muted"), labelsize=font - 1, length=0, pad=5)
    axes.axvline(0, color=stand_in("line"), linewidth=1)
    axes.axvline(1, color=stand_in("line"), linewidth=1)
    axes.axvline(0.5, color=stand_in("muted"), linewidth=1.2, linestyle=(0, (4, 3)))


def _draw_row(
    axes: Any, ranked: RankedComponent, y: float, plot_px: float, font: float, *, is_cause: bool
) -> None:
    assert ranked.share is not None
    colour = stand_in("ink" if is_cause else "muted")
    axes.text(
        -12 / plot_px, y, words.phase_name(ranked.component), ha="right", va="center",
        transform=axes.get_yaxis_transform(), color=stand_in("ink"), fontsize=font,
        fontweight="bold" if is_cause else "normal",
    )  # fmt: skip
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
