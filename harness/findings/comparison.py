"""The accelerated path beside the baseline, cell by cell, from the same run."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import norm

from harness.findings.cells import metric_segments, number
from harness.findings.evidence import Evidence
from harness.findings.finding import Cell, ComparedMetric, Comparison, MetricName
from harness.stats.cell_quantile import cell_quantile

FACTOR = "accelerated"
SAME = 0.05
COMPARED: tuple[MetricName, ...] = ("ttft_s", "e2e_s", "itl_s")
COMPARED_Q = (0.5, 0.99)
Word = Literal["faster", "slower", "same", "undecided"]


def compare_paths(evidence: Evidence, cells: Sequence[Cell]) -> Comparison | None:
    """Ratio accelerated / baseline of each metric and quantile; None without both paths.

    ln ratio +- z sqrt(se_a^2 + se_b^2), with z for all cells of one metric and quantile together
    (Bonferroni), so that the intervals of a column hold jointly.
    """
    pairs = _pairs(cells)
    if not pairs:
        return None
    metrics = tuple(dict.fromkeys((evidence.scenario.analysis.metric, *COMPARED)))
    quantiles = tuple(dict.fromkeys((*COMPARED_Q, evidence.scenario.analysis.q)))
    z = float(norm.ppf(1 - (1 - evidence.scenario.analysis.confidence) / (2 * len(pairs))))
    compared = [
        _compare(evidence, baseline, accelerated, metric, q, z)
        for metric in metrics
        for q in quantiles
        for baseline, accelerated in pairs
    ]
    return Comparison(
        reference="baseline",
        candidate="accelerated",
        metrics=[item for item in compared if item is not None],
    )


def _pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells that differ in the path only: (baseline, accelerated)."""
    found: dict[tuple[tuple[str, object], ...], dict[bool, Cell]] = {}
    for cell in cells:
        if FACTOR in cell.factors:
            rest = tuple((name, value) for name, value in cell.factors.items() if name != FACTOR)
            found.setdefault(rest, {})[bool(cell.factors[FACTOR])] = cell
    return [(both[False], both[True]) for both in found.values() if len(both) == 2]


def _compare(
    evidence: Evidence, baseline: Cell, accelerated: Cell, metric: MetricName, q: float, z: float
) -> ComparedMetric | None:
    sides = [
        metric_segments(evidence.cell_rows(evidence.plan.cell(cell.id)), metric)
        for cell in (baseline, accelerated)
    ]
    if not all(sides) or min(np.concatenate(side).min() for side in sides) <= 0:
        return None
    low_side, high_side = (cell_quantile(side, q) for side in sides)
    if not math.isfinite(low_side.log_value) or not math.isfinite(high_side.log_value):
        return None
    difference = high_side.log_value - low_side.log_value
    half = z * math.hypot(low_side.se, high_side.se)
    low, high = math.exp(difference - half), math.exp(difference + half)
    if accelerated.state != "fixed" or baseline.state != "fixed":
        word: Word = "undecided"
    else:
        word = _word(low, high)
    return ComparedMetric(
        metric=metric,
        q=q,
        cell=accelerated.id,
        ratio=number(math.exp(difference)),
        low=number(low),
        high=number(high),
        verdict=word,
    )


def _word(low: float, high: float) -> Word:
    if high < 1:
        return "faster"
    if low > 1:
        return "slower"
    return "same" if low > 1 - SAME and high < 1 + SAME else "undecided"
