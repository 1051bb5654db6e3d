"""Where the slowest requests spend their time: one stacked bar per cell and path.

Small phases are folded into one grey part, so that a bar has few colours and each is named in the
legend. A phase that is shown in one bar is shown in all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from harness.report import grid, palette, quantity, words
from harness.report.palette import stand_in
from harness.report.quantity import Unit
from harness.report.schema import Cell
from harness.report.svg import canvas
from harness.report.text import short

OTHER: Final = "other"  # the server's own rest as well: neither says more than the other
FOLD_BELOW: Final = 0.02
MAX_BARS: Final = 40
_PREFERRED: Final = {
    "kv_wait": "phase-0",
    "attention": "phase-1",
    "ffn": "phase-2",
    "queue": "phase-3",
    "stream": "phase-4",
    "sample": "phase-5",
    "kv": "phase-6",
}
_BAR_PX: Final = 17.0
_GAP_PX: Final = 11.0
_WIDE_LEFT_PX: Final = 122.0


@dataclass(frozen=True)
class PhaseColours:
    """The phases that are drawn, largest first, each with the role of its colour."""

    roles: Mapping[str, str]

    def split(self, phases: Mapping[str, float]) -> dict[str, float]:
        """Seconds by drawn phase; the rest is `other`."""
        parts = {name: max(0.0, phases.get(name, 0.0)) for name in self.roles if name != OTHER}
        rest = sum(max(0.0, s) for name, s in phases.items() if name not in parts)
        return {**parts, OTHER: rest} if OTHER in self.roles else parts


def choose_colours(cells: Iterable[Cell]) -> PhaseColours:
    """Phases above 2 % of some cell, at most seven of them, and `other` where anything is left."""
    largest: dict[str, float] = {}
    names: dict[str, float] = {}
    for cell in cells:
        total = sum(max(0.0, s) for s in cell.phases_tail_s.values())
        for name, seconds in cell.phases_tail_s.items():
            share = max(0.0, seconds) / total if total else 0.0
            largest[name] = max(largest.get(name, 0.0), share)
            names[name] = names.get(name, 0.0) + max(0.0, seconds)
    kept = sorted(
        (name for name, share in largest.items() if share >= FOLD_BELOW and name != OTHER),
        key=lambda name: (-names[name], name),
    )[: palette.PHASE_SLOTS]
    roles = _assign(kept)
    if any(names[name] > 0 for name in names if name not in roles):
        roles[OTHER] = "phase-other"
    return PhaseColours(roles)


def shown_name(phase: str) -> str:
    """The phase in words; the folded rest is everything else."""
    return "everything else" if phase == OTHER else words.phase_name(phase)


def bar_cells(facet: grid.Facet) -> list[list[Cell]]:
    """Cells with phases, grouped by their value on the axis."""
    groups: dict[Any, list[Cell]] = {}
    for cell in facet.cells:
        if sum(cell.phases_tail_s.values()) > 0:
            groups.setdefault(cell.factors[facet.axis], []).append(cell)
    keys = list(groups)
    if facet.axis != words.FACTOR:  # sets of features stand as the scenario has them
        keys.sort(key=grid.order)
    kept: list[list[Cell]] = []
    for key in keys:
        if sum(map(len, kept)) + len(groups[key]) > MAX_BARS:
            break
        kept.append(groups[key])
    return kept


def longest_s(facet: grid.Facet) -> float:
    """Length of the longest bar."""
    return max(sum(cell.phases_tail_s.values()) for group in bar_cells(facet) for cell in group)


def draw_phases(
    facet: grid.Facet, colours: PhaseColours, longest_s: float, width: float, font: float = 12.0
) -> Figure:
    """The bars of one facet, grouped by the axis; `longest_s` sets the scale."""
    groups = bar_cells(facet)
    left_px = _left_px(facet, is_narrow=width < 480)
    right_px, top_px, bottom_px = (72.0, 6.0, 46.0)
    n_bars = sum(map(len, groups))
    height = top_px + bottom_px + n_bars * (_BAR_PX + 3) + len(groups) * _GAP_PX
    figure = canvas(width, height)
    plot_px = width - left_px - right_px
    rows_px = height - top_px - bottom_px
    axes = figure.add_axes((left_px / width, bottom_px / height, plot_px / width, rows_px / height))
    unit = quantity.shared_unit(longest_s)
    axes.set_xlim(0, longest_s * unit.per_second)
    axes.set_ylim(rows_px, 0)
    _frame(axes, font, unit)
    y = _GAP_PX / 2
    for group in groups:
        middle = y + len(group) * (_BAR_PX + 3) / 2
        _row_label(axes, group[0], facet.axis, middle, (left_px, plot_px), font)
        for cell in group:
            if facet.axis != words.FACTOR:
                _path_label(axes, cell, y + 1.5, (plot_px, left_px), font)
            _draw_bar(axes, cell, colours, y + 1.5, plot_px, unit, font)
            y += _BAR_PX + 3
        y += _GAP_PX
    return figure


def _left_px(facet: grid.Facet, *, is_narrow: bool) -> float:
    """Room for a value and its path, or for the name of a set of features."""
    if facet.axis == words.FACTOR:
        return 142.0 if is_narrow else 190.0
    return 84.0 if is_narrow else _WIDE_LEFT_PX


def describe(facet: grid.Facet, colours: PhaseColours) -> str:
    """The bars in words: the largest part of each."""
    parts = []
    for group in bar_cells(facet):
        for cell in group:
            split = colours.split(cell.phases_tail_s)
            total = sum(split.values())
            name, seconds = max(split.items(), key=lambda item: item[1])
            place = words.path_label(cell.factors)
            if facet.axis != words.FACTOR:
                place = f"{short(quantity.factor_value(cell.factors[facet.axis]))} {place}"
            parts.append(
                f"{place}: {quantity.duration(total)}, "
                f"most in {shown_name(name)} ({quantity.percent(seconds / total)})."
            )
    return " ".join(parts)


def _assign(names: Sequence[str]) -> dict[str, str]:
    roles = {name: _PREFERRED[name] for name in names if name in _PREFERRED}
    free = [f"phase-{i}" for i in range(palette.PHASE_SLOTS)]
    free = [role for role in free if role not in roles.values()]
    return {name: roles.get(name) or free.pop(0) for name in names}


def _frame(axes: Any, font: float, unit: Unit) -> None:
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=5)
    ticks = [tick for tick in axes.get_xticks() if tick <= axes.get_xlim()[1] * 1.0001]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.tick_params(axis="x", colors=stand_in("muted"), labelsize=font, length=0, pad=5)
    axes.grid(visible=True, axis="x", color=stand_in("line"), linewidth=1)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"mean {unit.name} per request", color=stand_in("muted"), fontsize=font)


def _row_label(
    axes: Any, cell: Cell, axis: str, y: float, room: tuple[float, float], font: float
) -> None:
    left_px, plot_px = room
    text = quantity.factor_value(cell.factors[axis])
    if axis == words.FACTOR:
        text = short(words.path_label(cell.factors), 24 if left_px > _WIDE_LEFT_PX + 40 else 18)
    elif len(text) > 6 and not grid.is_number(cell.factors[axis]):
        text = short(text, 6)
    axes.text(
        -(left_px - 2) / plot_px,
        y,
        text,
        transform=axes.get_yaxis_transform(),
        va="center",
        color=stand_in("ink"),
        fontsize=font,
        fontweight="normal" if axis == words.FACTOR else "bold",
    )


def _path_label(axes: Any, cell: Cell, y: float, room: tuple[float, float], font: float) -> None:
    plot_px, left_px = room
    is_narrow = left_px < _WIDE_LEFT_PX
    path = words.path_of(cell.factors)
    middle = y + _BAR_PX / 2
    axes.text(
        -8 / plot_px,
        middle,
        {"baseline": "base", "accelerated": "accel", "measured": ""}[path] if is_narrow else path,
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="center",
        color=stand_in(path),
        fontsize=font - 1,
    )


def _draw_bar(
    axes: Any,
    cell: Cell,
    colours: PhaseColours,
    y: float,
    plot_px: float,
    unit: Unit,
    font: float,
) -> None:
    scale = unit.per_second
    per_px = axes.get_xlim()[1] / plot_px
    middle = y + _BAR_PX / 2
    start = 0.0
    for name, seconds in colours.split(cell.phases_tail_s).items():
        width = seconds * scale
        if width <= 0:
            continue
        role = colours.roles[name]
        bar = Rectangle(
            (start, y), width, _BAR_PX, facecolor=stand_in(role), edgecolor=stand_in("paper"),
            linewidth=0.8,
        )  # fmt: skip
        axes.add_artist(bar)
        text = quantity.number(width, 2 if width < 100 else 3)
        if width / per_px > 12 + 8 * len(text):
            letters = "on-dark" if role in palette.DARK_FILLS else "on-light"
            axes.text(
                start + width / 2, middle, text, ha="center", va="center_baseline",
                color=stand_in(letters), fontsize=font - 1.5,
            )  # fmt: skip
        start += width
    axes.text(
        start + 6 * per_px,
        middle,
        quantity.duration(start / scale, unit),
        va="center",
        color=stand_in("ink"),
        fontsize=font - 1,
        clip_on=False,
    )
