"""The picture of a study: how near each op comes to what memory allows, over the bytes it moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernels.bench.study import Row

MARKERS: Final = "osD^vPX<>ph*"
# Okabe and Ito's colours stay apart for colour-blind readers; the marker says the op as well.
COLOURS: Final = {
    "cpu": "#d55e00",
    "torch": "#0072b2",
    "smart eager": "#009e73",
    "vllm eager": "#cc79a7",
    "naive loop": "#e69f00",
}
OTHER: Final = "#57606b"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG: share of the measured bandwidth floor against bytes moved, both logarithmic."""
    with mpl.rc_context({"font.size": 11}):
        figure = Figure(figsize=(10, 6), layout="constrained")
        axes = figure.add_subplot()
        _draw_points(axes, rows)
        _dress(axes, rows)
        figure.savefig(path, dpi=150)


def _draw_points(axes: Axes, rows: Sequence[Row]) -> None:
    ops = sorted({row.op for row in rows})
    for row in rows:
        axes.plot(
            row.n_bytes,
            row.floor_share * 100,
            marker=MARKERS[ops.index(row.op) % len(MARKERS)],
            color=COLOURS.get(row.contender, OTHER),
            fillstyle="full" if row.n_threads == 1 else "none",
            linestyle="none",
            markersize=8,
            markeredgewidth=1.5,
        )
    for at, op in enumerate(ops):
        axes.plot([], [], marker=MARKERS[at % len(MARKERS)], color="black", ls="none", label=op)
    for name in dict.fromkeys(row.contender for row in rows):
        axes.plot([], [], color=COLOURS.get(name, OTHER), linewidth=5, label=name)


def _dress(axes: Axes, rows: Sequence[Row]) -> None:
    axes.axhline(100, color="black", linewidth=1, linestyle="--")
    axes.annotate(
        "measured memory floor",
        (1, 100),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
    axes.set_xlabel("least bytes moved by a call")
    axes.set_ylabel("share of the bandwidth floor, %")
    axes.set_title("Kernels against the measured memory bandwidth")
    axes.grid(visible=True, which="both", alpha=0.25)
    title = "hollow: 2 threads" if any(row.n_threads > 1 for row in rows) else None
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=title, frameon=False)
