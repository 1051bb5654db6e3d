"""Log quantile of a cell with its standard error, ready for a fit over the cells of an axis.

A cell is measured in segments spread over the whole run. The error has two parts: the sampling
error of the order statistic inside the cell, and what moves between segments (drift, a neighbour
on the machine), which no number of requests inside one segment would show.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import finite_or_inf, n_for_finite, quantile_interval

CONFIDENCE = 0.95
MIN_SEGMENT = 20
SEGMENT_EXCEEDANCES = 10


@dataclass(frozen=True, kw_only=True)
class CellQuantile:
    """One cell's quantile on the log scale.

    Attributes:
        log_value: natural log of the pooled order statistic; +inf where it never ended.
        se: standard error of `log_value`, both parts together; where too few effective values
            carry a finite interval, widened by n_for_finite / n_effective.
        n: number of values.
        n_effective: independent values they are worth.
        open: whether the 95 % interval has no finite upper bound.
        segment_sd: spread between segments beyond their sampling error, on the log scale.
        caveats: what limits the result.
    """

    log_value: float
    se: float
    n: int
    n_effective: float
    open: bool
    segment_sd: float
    caveats: tuple[Caveat, ...] = ()


def cell_quantile(segments: Sequence[ArrayLike], q: float) -> CellQuantile:
    """Log quantile of one cell; its spread between segments comes from this cell alone."""
    return cell_quantiles([segments], q)[0]


def cell_quantiles(cells: Sequence[Sequence[ArrayLike]], q: float) -> tuple[CellQuantile, ...]:
    """Log quantiles of the cells of one axis, with a spread between segments common to all.

    With S segments, v_s the log quantile of segment s and w_s its sampling variance, the excess
    of a cell is var(v_s) - mean(w_s). Three degrees of freedom a cell are too few to be used
    alone, so the excesses are averaged over the cells (weights S - 1) and cut at 0; then

        se^2 = se_within^2 + excess / S.

    Segments are compared at the highest quantile, at most q, with ten exceedances in the shortest:
    what moves a segment is taken to move its quantiles by one factor.

    The order statistic's own error is too small an account where n_effective does not reach the
    number that carries a finite interval (368 for P99) and is widened by n_for_finite / n_effective
    there: enough for log-normal marginals, not for bimodal ones at 100 values and not where nothing
    is widened (`python -m harness.stats.bed.errors`).

    Shapes: cells[c][s] is (n_cs,), in order of time.

    Raises:
        ValueError: no cell, no segment, an empty one, NaN, or a value that is not above zero.
    """
    if not cells:
        msg = "cells: got none, allowed at least one"
        raise ValueError(msg)
    parts = [[_positive(part) for part in segments] for segments in cells]
    plain = [_within(segments, q) for segments in parts]
    freedom = np.array([len(segments) - 1 for segments in parts], dtype=float)
    excess = np.array([_excess(s, q, p) for s, p in zip(parts, plain, strict=True)])
    known = freedom * np.isfinite(excess)
    total = float(known.sum())
    common = max(0.0, float((known * np.nan_to_num(excess)).sum()) / total) if total else 0.0
    return tuple(
        replace(p, se=math.hypot(p.se, math.sqrt(common / len(s))), segment_sd=math.sqrt(common))
        for s, p in zip(parts, plain, strict=True)
    )


def quantile_log_se(values: ArrayLike, q: float, n_effective: float | None = None) -> float:
    """Standard error of log quantile `q`: the exact bootstrap deviation of its order statistic.

    The sorted values x_(1..n) get the weights w_i = I(i/n) - I((i-1)/n), where I is the regularised
    incomplete beta function with a = q (m+1), b = (1-q) (m+1), m = n_effective; then
    se^2 = sum_i w_i (log x_(i) - sum_j w_j log x_(j))^2. This is the limit of infinitely many
    bootstrap draws. Against the half-width of the order-statistic interval (29-83 % too wide at
    512-1000 values) its bias is +2..+21 % there, with the same spread.

    Source: Maritz & Jarrett, A note on estimating the variance of the sample median, JASA 73
        (1978), 194-196.

    Raises:
        ValueError: no values, NaN, or one that is not above zero.
    """
    sample = _positive(values)
    n = sample.size
    m = float(n) if n_effective is None else n_effective
    spread = 9 * n * math.sqrt(q * (1 - q) / (m + 2)) + 1
    first = max(0, math.floor(n * q - spread))
    last = min(n - 1, math.ceil(n * q + spread))
    window = np.sort(np.partition(sample, [first, last])[first : last + 1])
    edges = np.arange(first, last + 2) / n
    weights = np.diff(betainc(q * (m + 1), (1 - q) * (m + 1), edges))
    weights /= weights.sum()
    logs = np.log(window)
    if not np.isfinite(logs[weights > 1e-12]).all():
        return math.inf
    logs = np.where(weights > 1e-12, logs, 0.0)
    return math.sqrt(float(weights @ (logs - weights @ logs) ** 2))


def _within(segments: list[NDArray[np.float64]], q: float) -> CellQuantile:
    """The cell with its sampling error only."""
    size = indicator_ess(segments, q)
    pooled = np.concatenate(segments)
    interval = quantile_interval(pooled, q, CONFIDENCE, size.n_effective)
    caveats = list(interval.caveats)
    if size.tau > 2:
        text = f"Slow requests cluster: {size.n} values are worth {size.n_effective:.0f}."
        caveats.append(Caveat(CaveatKind.AUTOCORRELATED, text))
    if len(segments) == 1:
        text = "Measured in one segment: what moves between segments is not in the error."
        caveats.append(Caveat(CaveatKind.ONE_START, text))
    widening = max(1.0, n_for_finite(q, CONFIDENCE) / size.n_effective)
    return CellQuantile(
        log_value=math.log(interval.value),
        se=quantile_log_se(pooled, q, size.n_effective) * widening,
        n=size.n,
        n_effective=size.n_effective,
        open=math.isinf(interval.high),
        segment_sd=0.0,
        caveats=tuple(caveats),
    )


def _excess(segments: list[NDArray[np.float64]], q: float, pooled: CellQuantile) -> float:
    """var(v_s) - mean(w_s), or NaN where the segments are too few or too short to tell."""
    shortest = min(part.size for part in segments)
    if len(segments) < 2 or shortest < MIN_SEGMENT:
        return math.nan
    level = min(q, 1 - SEGMENT_EXCEEDANCES / shortest)
    ranks = [max(1, math.ceil(level * part.size - 1e-9)) for part in segments]
    logs = [math.log(np.partition(p, r - 1)[r - 1]) for p, r in zip(segments, ranks, strict=True)]
    share = pooled.n_effective / pooled.n
    errors = [quantile_log_se(part, level, part.size * share) for part in segments]
    if not (np.isfinite(logs).all() and np.isfinite(errors).all()):
        return math.nan
    return float(np.var(logs, ddof=1) - np.mean(np.square(errors)))


def _positive(values: ArrayLike) -> NDArray[np.float64]:
    """`values` checked for a log scale."""
    sample = finite_or_inf(values, "values")
    smallest = float(sample.min())
    if smallest <= 0:
        msg = f"values: got {smallest:g}, allowed above 0: the scale is logarithmic"
        raise ValueError(msg)
    return sample
