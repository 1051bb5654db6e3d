"""What a finished run found out, as gauges at its end: quantiles, breaks, shares, ratios, verdict.

Undefined values and open bounds have no series.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harness.export.family import Point
from harness.export.run_labels import factor_words
from harness.findings.finding import (
    BaselineComparison,
    Breakpoint,
    Cell,
    Comparison,
    Factor,
    Number,
    Verdict,
)
from harness.metrics.catalogue import load as catalogue
from harness.metrics.catalogue.metric import Metric
from harness.scenario.acceleration import FACTOR

Found = Iterator[tuple[Metric, Point]]
Q_OF: Final = {"p50": "0.5", "p90": "0.9", "p99": "0.99"}


def verdict_point(service: tuple[str, str, str], verdict: Verdict) -> tuple[Metric, Point]:
    """1 for the verdict there is."""
    return catalogue.RUN_VERDICT, Point((*service, verdict.status), 1)


def cell_points(labels: Mapping[str, tuple[str, ...]], cells: Sequence[Cell]) -> Found:
    """Every quantile of every cell with its interval; `labels` are by cell id."""
    for cell in cells:
        for metric, quantiles in cell.metrics.items():
            for name, each in quantiles.items():
                where = (*labels[cell.id], metric, Q_OF[name])
                bounds = {"value": each.value, "low": each.low, "high": each.high}
                yield from _bounds(catalogue.RUN_QUANTILE, where, bounds)


def break_points(service: tuple[str, str, str], breaks: Sequence[Breakpoint]) -> Found:
    """Where each metric breaks, and which components explain it."""
    for each in breaks:
        path = _path(each.at)
        others = {n: v for n, v in each.at.items() if n != FACTOR or isinstance(v, str)}
        at = factor_words(others)
        where = (*service, path, each.metric, _q(each.q), each.axis, at)
        bounds = {"location": each.location, "low": each.low, "high": each.high}
        yield from _bounds(catalogue.RUN_BREAKPOINT, (*where, each.kind), bounds)
        for ranked in each.ranked:
            if ranked.share is not None:
                yield catalogue.RUN_SHARE, Point((*where, ranked.component), ranked.share)


def ratio_points(
    service: tuple[str, str, str], compared: Comparison | BaselineComparison | None
) -> Found:
    """Candidate over reference, cell by cell."""
    if compared is None:
        return
    for each in compared.metrics:
        where = (*service, each.cell, compared.reference, each.metric, _q(each.q))
        bounds = {"value": each.ratio, "low": each.low, "high": each.high}
        yield from _bounds(catalogue.RUN_RATIO, where, bounds)


def _bounds(metric: Metric, where: tuple[str, ...], bounds: Mapping[str, Number]) -> Found:
    for bound, value in bounds.items():
        if value is not None:
            yield metric, Point((*where, bound), value)


def _q(q: float) -> str:
    return f"{q:g}"


def _path(at: Mapping[str, Factor]) -> str:
    """The path of a break that holds on one; a set of features is told among the other factors."""
    value = at.get(FACTOR)
    return "" if value is None else "accelerated" if value else "baseline"
