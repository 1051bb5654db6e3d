"""The accelerated path beside the baseline, cell by cell, from the same run."""

from collections.abc import Sequence

import numpy as np

from harness.findings.cells import metric_segments, number
from harness.findings.evidence import Evidence
from harness.findings.finding import Cell, ComparedMetric, ComparedWord, Comparison, MetricName
from harness.stats.ratio import QuantileRatio, quantile_ratios

FACTOR = "accelerated"
SAME = 0.05
COMPARED: tuple[MetricName, ...] = ("ttft_s", "e2e_s", "itl_s")
COMPARED_Q = (0.5, 0.99)
Pair = tuple[Cell, Cell]


def compare_paths(evidence: Evidence, cells: Sequence[Cell]) -> Comparison | None:
    """Ratio accelerated / baseline of each metric and quantile; None without both paths.

    The intervals of one metric and quantile hold together over all cells.
    """
    pairs = _pairs(cells)
    if not pairs:
        return None
    metrics = tuple(dict.fromkeys((evidence.scenario.analysis.metric, *COMPARED)))
    quantiles = tuple(dict.fromkeys((*COMPARED_Q, evidence.scenario.analysis.q)))
    return Comparison(
        reference="baseline",
        candidate="accelerated",
        metrics=[
            item
            for metric in metrics
            for q in quantiles
            for item in _compare(evidence, pairs, metric, q)
        ],
    )


def compared(
    metric: MetricName, q: float, cell: str, found: QuantileRatio | None, word: ComparedWord
) -> ComparedMetric:
    """One row; without a ratio everything but the word is null."""
    return ComparedMetric(
        metric=metric,
        q=q,
        cell=cell,
        ratio=number(found.ratio) if found else None,
        low=number(found.low) if found else None,
        high=number(found.high) if found else None,
        verdict=word,
    )


def pair_ratios(
    reference: Evidence, candidate: Evidence, pairs: Sequence[Pair], metric: MetricName, q: float
) -> list[QuantileRatio | None]:
    """One ratio for each pair of cells, all holding together; None where a side has no value."""
    sides = [
        (_segments(reference, before, metric), _segments(candidate, after, metric))
        for before, after in pairs
    ]
    whole = [side for side in sides if all(side)]
    if not whole:
        return [None] * len(pairs)
    before, after = zip(*whole, strict=True)
    confidence = candidate.scenario.analysis.confidence
    found = iter(quantile_ratios(before, after, q, confidence, len(pairs)))
    return [next(found) if all(side) else None for side in sides]


def _segments(evidence: Evidence, cell: Cell, metric: str) -> list[np.ndarray]:
    """A cell's values; none where one of them has no logarithm."""
    segments = metric_segments(evidence.cell_rows(evidence.plan.cell(cell.id)), metric)
    return segments if segments and min(part.min() for part in segments) > 0 else []


def _pairs(cells: Sequence[Cell]) -> list[Pair]:
    """Cells that differ in the path only: (baseline, accelerated)."""
    found: dict[tuple[tuple[str, object], ...], dict[bool, Cell]] = {}
    for cell in cells:
        if FACTOR in cell.factors:
            rest = tuple((name, value) for name, value in cell.factors.items() if name != FACTOR)
            found.setdefault(rest, {})[bool(cell.factors[FACTOR])] = cell
    return [(both[False], both[True]) for both in found.values() if len(both) == 2]


def _compare(
    evidence: Evidence, pairs: Sequence[Pair], metric: MetricName, q: float
) -> list[ComparedMetric]:
    found = zip(pairs, pair_ratios(evidence, evidence, pairs, metric, q), strict=True)
    return [
        compared(metric, q, pair[1].id, ratio, _word(pair, ratio))
        for pair, ratio in found
        if ratio is not None
    ]


def _word(pair: Pair, found: QuantileRatio) -> ComparedWord:
    if any(cell.state != "fixed" for cell in pair):
        return "undecided"
    if found.high < 1:
        return "faster"
    if found.low > 1:
        return "slower"
    return "same" if found.low > 1 - SAME and found.high < 1 + SAME else "undecided"
