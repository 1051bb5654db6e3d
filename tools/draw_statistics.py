"""Draws the pictures of docs/statistics.md from simulated requests, by the estimators themselves.

python -m tools.draw_statistics        writes docs/statistics-*.svg anew
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from harness.base.rng import generator
from harness.stats.bed.tasks.stopping import PLANNED
from harness.stats.breakpoints import Breakpoint, find_breakpoint
from harness.stats.confidence_sequence import sequential_interval
from harness.stats.quantile_ci import QuantileInterval, quantile_interval

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
SEED: Final = 20261130
Q: Final = 0.99
SIGMA: Final = 0.6
TRUTH: Final = float(np.exp(2.3263478740408408 * SIGMA))
BLUE, RED, GREY = "#0072b2", "#b02a1c", "#57606b"
SETTINGS: Final = {"svg.hashsalt": "tailbreak", "svg.fonttype": "none", "font.size": 9}


def draw_intervals() -> Figure:
    """The same experiment forty times: how often the interval holds the truth."""
    rng = generator(SEED, "intervals")
    figure, axes = _canvas()
    for i in range(40):
        found = quantile_interval(rng.lognormal(0.0, SIGMA, 2000), Q)
        holds = found.low <= TRUTH <= found.high
        axes.plot([i, i], [found.low, found.high], color=BLUE if holds else RED, linewidth=2)
        axes.plot([i], [found.value], "o" if holds else "X", color=BLUE if holds else RED, ms=4)
    _truth(axes, 40)
    axes.set_xlabel("the same experiment of 2,000 requests, forty times (cross: missed)")
    axes.set_ylabel("P99 and its interval")
    return figure


def draw_peeking() -> Figure:
    """One stream looked at again and again: the interval for one look, and the sequence."""
    looks = np.unique(np.geomspace(400, 20_000, 30).astype(int))
    values = generator(SEED, "peeking").lognormal(0.0, SIGMA, int(looks[-1]))
    figure, axes = _canvas()
    for name, colour, ask in (
        ("may be looked at at any time", BLUE, _sequence),
        ("for one look", RED, _one_look),
    ):
        found = [ask(values[:n]) for n in looks.tolist()]
        low, high = [each.low for each in found], [each.high for each in found]
        axes.fill_between(looks, low, high, color=colour, alpha=0.25, linewidth=0, label=name)
        axes.plot(looks, low, looks, high, color=colour, linewidth=1)
    axes.axhline(TRUTH, color=GREY, linewidth=1, linestyle="--", label="the truth")
    axes.set_xscale("log")
    axes.set_ylim(TRUTH * 0.6, TRUTH * 1.7)
    axes.set_xlabel("requests so far")
    axes.set_ylabel("interval of P99")
    axes.legend(frameon=False)
    return figure


def draw_breaks() -> Figure:
    """A curve that only bends, and one that steps, as the search sees them."""
    x = np.geomspace(64, 8192, 12)
    bends = np.log(1 + 0.5 * x / 1024 + 0.3 * (x / 4096) ** 2)
    steps = np.log(1 + 0.5 * x / 1024) + np.log(1.5) * (x > 1000)
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    for i, (name, law) in enumerate((("bends", bends), ("steps", steps)), 1):
        rng = generator(SEED, "breaks", name)
        se = np.full(x.size, 0.03)
        y = law + rng.normal(0.0, se)
        _draw_search(figure.add_subplot(1, 2, i), x, y, se, find_breakpoint(x, y, se, rng=rng))
    return figure


def _draw_search(axes: Any, x: Any, y: Any, se: Any, found: Breakpoint) -> None:
    axes.errorbar(x, np.exp(y), np.exp(y) * 1.96 * se, fmt="o", color=BLUE, ms=4, linewidth=1.5)
    if found.low is not None and found.high is not None and found.kind.value != "none":
        axes.axvspan(found.low, found.high, color=RED, alpha=0.2, linewidth=0)
    axes.set_title(f"answer: {found.kind.value}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("prompt tokens")
    axes.minorticks_off()


def _one_look(values: Any) -> QuantileInterval:
    return quantile_interval(values, Q)


def _sequence(values: Any) -> QuantileInterval:
    n = len(values)
    return sequential_interval(values, Q, confidence=0.95, n_effective=n, planned=PLANNED)


def _canvas() -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    return figure, figure.add_subplot()


def _truth(axes: Any, n: int) -> None:
    axes.plot([-0.5, n - 0.5], [TRUTH, TRUTH], color=GREY, linewidth=1, linestyle="--")


PICTURES: Final[dict[str, Callable[[], Figure]]] = {
    "interval": draw_intervals,
    "peeking": draw_peeking,
    "breaks": draw_breaks,
}


def main() -> None:
    """Write every picture."""
    with rc_context(SETTINGS):
        for name, draw in PICTURES.items():
            path = DOCS / f"statistics-{name}.svg"
            draw().savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")
            print(path.name, f"{path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
