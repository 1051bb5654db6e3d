"""The picture of the precision study: largest error so far, a panel for each penalty."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from kernels.bench.precision import N_STEPS, PENALTIES, THRESHOLD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernels.bench.precision import Drift

# Okabe and Ito's colours stay apart for colour-blind readers; the dashes say the rest.
COLOURS: Final = {"fp32": "#0072b2", "fp16": "#e69f00", "bf16": "#d55e00"}
LEAST: Final = 1e-8
"""What an error of zero is drawn as: the foot of the axis."""


def draw(drifts: Sequence[Drift], path: Path) -> None:
    """Write a PNG."""
    with mpl.rc_context({"font.size": 11}):
        from matplotlib.figure import Figure  # noqa: PLC0415 - drawing is asked for rarely

        figure = Figure(figsize=(11, 8), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
        for axes, penalty in zip(panels, PENALTIES, strict=True):
            _draw_panel(axes, [each for each in drifts if each.penalty == penalty])
            axes.set_title(f"penalty {penalty} a step")
        for axes in panels[2:]:
            axes.set_xlabel("accepted tokens (steps)")
        for axes in panels[::2]:
            axes.set_ylabel("largest error so far, nats (foot: none, or less)")
        panels[0].legend(loc="upper left", fontsize=9, frameon=False)
        figure.suptitle("Penalties summed up step by step (dot: the sum stands still), and counted")
        figure.savefig(path, dpi=150)


def _draw_panel(axes: Axes, drifts: Sequence[Drift]) -> None:
    steps = range(1, N_STEPS + 1)
    for each in drifts:
        axes.plot(
            steps,
            list(accumulate(map(abs, each.errors), max, initial=LEAST))[1:],
            color=COLOURS[each.type],
            linestyle="-" if each.how == "summed" else ":",
            linewidth=1.6,
            label=f"{each.type}, {each.how}",
        )
        if each.stall_step is not None:
            error = max(map(abs, each.errors[: each.stall_step]))
            axes.plot(each.stall_step, error, "o", color=COLOURS[each.type])
    limit = float(THRESHOLD)
    axes.axhline(limit, color="black", linewidth=1, linestyle="--", label=f"drift: {limit} nats")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.25)
