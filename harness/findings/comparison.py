"""What is accelerated beside the baseline, cell by cell, from the same run.

Ratios of two runs are made of the same pieces (`harness.findings.baseline`).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from harness.findings.cells import number
from harness.findings.enough import metric_segments
from harness.findings.evidence import Evidence
from harness.findings.fidelity import differs, judge_answers
from harness.findings.finding import (
    USABLE,
    Cell,
    ComparedMetric,
    ComparedWord,
    Comparison,
    MetricName,
)
from harness.findings.ledger import Pair, as_asked, build_ledger, extensions, others
from harness.findings.words import path_name
from harness.scenario.acceleration import ALL, FACTOR
from harness.stats.cell_quantile import CellQuantile, cell_quantiles
from harness.stats.ratio import QuantileRatio, ratios_of

SAME: Final = 0.05
COMPARED: Final[tuple[MetricName, ...]] = ("ttft_s", "tpot_s", "e2e_s", "itl_s")
COMPARED_Q: Final = (0.99, 0.5)


def compare_paths(evidence: Evidence, cells: Sequence[Cell]) -> Comparison | None:
    """Ratio to the baseline of each metric and quantile; None without a baseline and another path.

    The intervals of one metric and quantile hold together over all pairs, those of the ledger too.
    """
    pairs = _pairs(cells)
    if not pairs:
        return None
    together = [*pairs, *extensions(pairs)]
    found = {_ids(pair): list[ComparedMetric]() for pair in together}
    analysis = evidence.scenario.analysis
    for metric in dict.fromkeys((analysis.metric, *COMPARED)):
        for q in dict.fromkeys((analysis.q, *COMPARED_Q)):
            for pair, item in _compare(evidence, together, metric, q):
                found[_ids(pair)].append(item)
    asked = list(dict.fromkeys(as_asked(after.factors[FACTOR]) for _, after in pairs))
    return Comparison(
        reference="baseline",
        candidate=path_name(asked[0] if len(asked) == 1 else ALL),
        metrics=_by_quantile(found[_ids(pair)] for pair in pairs),
        ledger=build_ledger([(pair, found[_ids(pair)]) for pair in together]),
        answers=judge_answers(evidence, asked),
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
    """One ratio for each pair of cells, all holding together; None where a side has no value.

    What moves between segments is taken from all cells of a run together.
    """
    before, after = ([pair[side] for pair in pairs] for side in (0, 1))
    if reference is candidate:
        before = after = [*before, *after]
    known = [_quantiles(reference, before, metric, q), _quantiles(candidate, after, metric, q)]
    sides = [(known[0].get(one.id), known[1].get(other.id)) for one, other in pairs]
    whole = [(one, other) for one, other in sides if one is not None and other is not None]
    found = iter(ratios_of(whole, candidate.scenario.analysis.confidence, len(pairs)))
    return [None if None in side else next(found) for side in sides]


def _quantiles(
    evidence: Evidence, cells: Iterable[Cell], metric: MetricName, q: float
) -> dict[str, CellQuantile]:
    """The quantile of each cell that has one, by id."""
    values = {cell.id: _segments(evidence, cell, metric) for cell in cells}
    whole = {name: segments for name, segments in values.items() if segments}
    return dict(zip(whole, cell_quantiles([*whole.values()], q), strict=True)) if whole else {}


def _segments(evidence: Evidence, cell: Cell, metric: str) -> list[np.ndarray]:
    """A cell's values; none where one of them has no logarithm."""
    segments = metric_segments(evidence.cell_rows(evidence.plan.cell(cell.id)), metric)
    return segments if segments and min(part.min() for part in segments) > 0 else []


def _pairs(cells: Sequence[Cell]) -> list[Pair]:
    """Cells that differ in the path only: (baseline, other)."""
    baselines = {others(cell): cell for cell in cells if cell.factors.get(FACTOR) is False}
    return [
        (baselines[others(cell)], cell)
        for cell in cells
        if cell.factors.get(FACTOR) and others(cell) in baselines
    ]


def _ids(pair: Pair) -> tuple[str, str]:
    return pair[0].id, pair[1].id


def _compare(
    evidence: Evidence, pairs: Sequence[Pair], metric: MetricName, q: float
) -> list[tuple[Pair, ComparedMetric]]:
    found = zip(pairs, pair_ratios(evidence, evidence, pairs, metric, q), strict=True)
    return [
        (pair, compared(metric, q, pair[1].id, ratio, _word(evidence, pair, ratio)))
        for pair, ratio in found
        if ratio is not None
    ]


def _by_quantile(found: Iterable[Sequence[ComparedMetric]]) -> list[ComparedMetric]:
    """The rows of all pairs, those of one metric and quantile together."""
    groups: dict[tuple[MetricName, float], list[ComparedMetric]] = {}
    for items in found:
        for item in items:
            groups.setdefault((item.metric, item.q), []).append(item)
    return [item for group in groups.values() for item in group]


def _word(evidence: Evidence, pair: Pair, found: QuantileRatio) -> ComparedWord:
    if differs(evidence, pair):
        return "differs"
    if any(cell.state not in USABLE for cell in pair):
        return "undecided"
    if found.high < 1:
        return "faster"
    if found.low > 1:
        return "slower"
    return "same" if found.low > 1 - SAME and found.high < 1 + SAME else "undecided"
