"""A comparison with an earlier run as one sentence, for the verdict and for the report."""

from collections.abc import Sequence

from harness.findings.finding import BaselineComparison, Cell, ComparedMetric
from harness.findings.quantity import many, percent, told_ratio
from harness.findings.text import short
from harness.findings.words import metric_words, where_words

RUN_LIMIT = 80
LARGEST_TOLD = 10.0
"""Relative slowdown; a size beyond it says only that there are far too few requests."""


def baseline_sentence(found: BaselineComparison, cells: Sequence[Cell]) -> str:
    """What changed against the earlier run, at the cell where it changed most."""
    run, limit = f"run {short(found.reference, RUN_LIMIT)}", percent(found.limit)
    subject = metric_words(found.metrics[0].metric, found.metrics[0].q)
    match found.verdict:
        case "regression":
            return (
                f"{subject} is slower than in {run} by more than {limit} "
                f"{_count(found, 'regression')}{_most(found, cells)}."
            )
        case "improvement":
            return (
                f"{subject} is faster than in {run} {_count(found, 'improvement')}"
                f"{_most(found, cells)}; no cell is slower by more than {limit}."
            )
        case "undecided":
            return (
                f"Against {run} {subject} is undecided {_count(found, 'undecided')}: whether a "
                f"cell is slower by more than {limit} cannot be said{_detectable(found)}."
            )
        case _:
            return f"{subject} is not slower than in {run} by more than {limit} in any cell."


def ratio_words(item: ComparedMetric) -> str:
    """`2.1x, 1.7 to 2.6`; a bound that says nothing is a question mark."""
    if item.ratio is None or item.low is None or item.high is None:
        return ""
    low, high = ("?" if b is None else f"{b:.3g}" for b in map(told_ratio, (item.low, item.high)))
    return f"{item.ratio:.3g}x, {low} to {high}"


def _count(found: BaselineComparison, word: str) -> str:
    n = sum(item.verdict == word for item in found.metrics)
    return f"in {n} of {many(len(found.metrics), 'cell')}"


def _most(found: BaselineComparison, cells: Sequence[Cell]) -> str:
    """The cell that changed most in the direction of the verdict."""
    sign = 1 if found.verdict == "regression" else -1
    changed = [item for item in found.metrics if item.verdict == found.verdict]
    item = max(changed, key=lambda item: sign * (item.ratio or 1.0))
    factors = next(cell.factors for cell in cells if cell.id == item.cell)
    return f", most {where_words(factors)} ({ratio_words(item)})"


def _detectable(found: BaselineComparison) -> str:
    if found.detectable_effect is None:
        return ""
    if found.detectable_effect > LARGEST_TOLD:
        return f"; not even one of {percent(LARGEST_TOLD)} was sure to be seen"
    return f"; a slowdown above {percent(found.detectable_effect)} would have been seen everywhere"
