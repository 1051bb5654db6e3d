"""A comparison with the baseline path as sentences, for the verdict."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.findings.finding import (
    VOID,
    Cell,
    ComparedMetric,
    ComparedWord,
    Comparison,
    Factor,
    MetricName,
)
from harness.findings.quantity import factor_value, many
from harness.findings.text import short
from harness.findings.words import metric_words, on_axis, path_name
from harness.scenario.acceleration import ALL, FACTOR
from harness.scenario.schema import Analysis

SAID: Final[tuple[MetricName, ...]] = ("ttft_s", "tpot_s", "e2e_s")
ORDER: Final[tuple[ComparedWord, ...]] = ("faster", "slower", "same", "differs", "undecided")


def comparison_sentences(
    comparison: Comparison, cells: Sequence[Cell], asked: Analysis
) -> list[str]:
    """What becomes of the asked quantile; of the others too where the paths are what is asked."""
    metrics = (asked.metric, *SAID) if asked.axis == FACTOR else (asked.metric,)
    said = (_sentence(comparison, cells, asked, metric) for metric in dict.fromkeys(metrics))
    return [sentence for sentence in said if sentence]


def _sentence(
    comparison: Comparison, cells: Sequence[Cell], asked: Analysis, metric: MetricName
) -> str:
    """One quantile beside the baseline, at the cell where it changes most."""
    items = _usable(comparison, cells, metric, asked.q)
    if not items:
        return ""
    counts = {word: n for word in ORDER if (n := sum(item.verdict == word for item in items))}
    faster = (item for item in items if item.verdict == "faster")
    best = min(faster, key=lambda item: item.ratio or 1.0, default=None)
    most = _most(best, cells) if best else ""
    if asked.axis != FACTOR and comparison.candidate == path_name(ALL):
        return _of_path(counts, len(items), most)
    first, *rest = (f"{word} in {n}" for word, n in counts.items())
    others = f"; {', '.join(rest)}" if rest else ""
    subject = metric_words(metric, asked.q)
    return f"{subject} beside the baseline: {first} of {many(len(items), 'cell')}{most}{others}."


def _of_path(counts: Mapping[ComparedWord, int], n: int, most: str) -> str:
    """The accelerated path, in the only quantile that is told of."""
    if counts.get("differs"):
        return ""  # the verdict says so, and why
    n_faster, n_slower = counts.get("faster", 0), counts.get("slower", 0)
    if not n_faster and not n_slower:
        return "The accelerated path changes no cell beyond its interval."
    if not n_faster:
        return f"The accelerated path is slower in {n_slower} of {many(n, 'cell')}."
    slower = f" and slower in {n_slower}" if n_slower else ""
    return f"The accelerated path is faster in {n_faster} of {many(n, 'cell')}{slower}{most}."


def _usable(
    comparison: Comparison, cells: Sequence[Cell], metric: MetricName, q: float
) -> list[ComparedMetric]:
    """The rows of this quantile of which neither side is void."""
    void = {_key(cell.factors) for cell in cells if cell.state in VOID}
    factors = {cell.id: cell.factors for cell in cells}
    return [
        item
        for item in comparison.metrics
        if (item.metric, item.q) == (metric, q) and item.ratio is not None
        if not void & _sides(factors.get(item.cell, {}))
    ]


def _sides(factors: Mapping[str, Factor]) -> set[frozenset[tuple[str, Factor]]]:
    """A cell and its baseline, as `_key` names them."""
    return {_key(factors), _key({**factors, FACTOR: False})}


def _key(factors: Mapping[str, Factor]) -> frozenset[tuple[str, Factor]]:
    return frozenset(factors.items())


def _most(item: ComparedMetric, cells: Sequence[Cell]) -> str:
    """`, most with paged_kv at 320 prompt tokens (2.29x, 2.13 to 2.46)`."""
    factors = next((cell.factors for cell in cells if cell.id == item.cell), {})
    places = [
        on_axis(name, short(factor_value(value)))
        for name, value in factors.items()
        if name != FACTOR
    ]
    asked = {value for cell in cells if (value := cell.factors.get(FACTOR))}
    with_ = "" if asked <= {True} else f" with {path_name(factors[FACTOR])}"
    at = f" at {', '.join(places)}" if places else ""
    return f"{', most' if with_ or at else ''}{with_}{at} ({_ratio_words(item)})"


def _ratio_words(item: ComparedMetric) -> str:
    assert item.ratio is not None
    times = f"{1 / item.ratio:.2f}x"
    if item.low and item.high:
        times += f", {1 / item.high:.2f} to {1 / item.low:.2f}"
    return times
