"""Effective sample size of the exceedances of a quantile.

Requests that share a queue are not independent: a slow one tends to follow a slow one. How many
independent requests a cell is worth *for its tail* is read from the 0/1 series "slower than the
quantile", not from the latencies themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.quantile_ci import finite_or_inf, quantile_rank, require_share

MIN_EXCEEDANCES = 30
MAX_LAG = 2000


@dataclass(frozen=True, kw_only=True)
class EffectiveSize:
    """What n correlated values are worth.

    Attributes:
        n: number of values over all segments.
        n_effective: n / tau, at most n.
        tau: integrated autocorrelation time of the exceedance indicator, at least 1.
        indicator_q: the quantile whose exceedances were used.
    """

    n: int
    n_effective: float
    tau: float
    indicator_q: float


def indicator_ess(segments: Sequence[ArrayLike], q: float) -> EffectiveSize:
    """Effective size of a cell's values for its quantile `q`.

    The indicator is I = [x > threshold], the threshold being the highest quantile, at most q, with
    at least 30 exceedances over the whole cell (at P99 of 512 values five exceedances would make
    the estimate noise). With r_t the autocorrelation of I at lag t around the mean of the cell,
    products taken inside segments only,

        tau = -1 + 2 sum_m G_m,   G_m = r_{2m} + r_{2m+1},

    cut at the first G_m <= 0 and made non-increasing; then tau >= 1 and n_effective = n / tau.

    Only positive terms enter the sum, so the size is biased low, by some percent for independent
    values and less the more there are. The mean is that of the cell, not of the segment, so a level
    that differs between segments counts as correlation.

    Shapes: each segment (n_s,), in order of time.
    Source: Geyer, Practical Markov Chain Monte Carlo, Statistical Science 7 (1992), section 3.3.

    Raises:
        ValueError: no segment, an empty one, NaN, or q outside (0, 1).
    """
    require_share(q, "q")
    parts = [finite_or_inf(part, f"segment {i}") for i, part in enumerate(segments)]
    if not parts:
        msg = "segments: got none, allowed at least one"
        raise ValueError(msg)
    values = np.concatenate(parts)
    level = indicator_level(values.size, q)
    return ess_above(parts, _order_statistic(values, level), level)


def indicator_level(n: int, q: float) -> float:
    """The highest quantile, at most `q`, that `n` values exceed 30 times; the median at least."""
    return min(q, max(0.5, 1 - MIN_EXCEEDANCES / n))


def ess_above(
    parts: Sequence[NDArray[np.float64]], threshold: float, indicator_q: float
) -> EffectiveSize:
    """Effective size by the exceedances of a threshold, the value of quantile `indicator_q`."""
    tau = _autocorrelation_time([part > threshold for part in parts])
    n = sum(part.size for part in parts)
    return EffectiveSize(n=n, n_effective=n / tau, tau=tau, indicator_q=indicator_q)


def indicator_threshold(segments: Sequence[ArrayLike], size: EffectiveSize) -> float:
    """The value that `size` took slow ones to be above."""
    return _order_statistic(np.concatenate([np.asarray(s) for s in segments]), size.indicator_q)


def _order_statistic(values: NDArray[np.float64], q: float) -> float:
    rank = quantile_rank(values.size, q)
    return float(np.partition(values, rank - 1)[rank - 1])


def _autocorrelation_time(segments: Sequence[NDArray[np.bool_]]) -> float:
    """Geyer's initial monotone sum over lag pairs, at least 1."""
    lengths = np.array([hit.size for hit in segments])
    n, n_hits = int(lengths.sum()), sum(int(np.count_nonzero(hit)) for hit in segments)
    mean = n_hits / n
    variance = mean * (1 - mean)
    if variance == 0:
        return 1.0
    last = min(int(lengths.max()) // 2, MAX_LAG)
    laid = _laid_out(segments, last + 1)
    at_edge = _hits_at_edges(segments, last + 1)

    def correlation(lag: int) -> float:
        pairs = int(np.maximum(lengths - lag, 0).sum())
        both = np.count_nonzero(laid[lag:] & laid[:-lag])
        single = 2 * n_hits - int(at_edge[lag])
        return (both - mean * single + mean * mean * pairs) / (pairs * variance)

    total, previous = 0.0, math.inf
    for lag in range(0, last, 2):
        pair = (1.0 if lag == 0 else correlation(lag)) + correlation(lag + 1)
        if pair <= 0:
            break
        previous = min(previous, pair)
        total += previous
    return min(float(n), max(1.0, 2 * total - 1))


def _laid_out(segments: Sequence[NDArray[np.bool_]], gap: int) -> NDArray[np.bool_]:
    """All segments in one row with so much room between them that no lag reaches across."""
    room = np.zeros(gap, dtype=bool)
    return np.concatenate([piece for hit in segments for piece in (hit, room)])


def _hits_at_edges(segments: Sequence[NDArray[np.bool_]], last: int) -> NDArray[np.int64]:
    """Hits among a segment's first `lag` values and among its last, summed, by lag 0..last."""
    found = np.zeros(last + 1, dtype=np.int64)
    for hit in segments:
        for edge in (hit[:last], hit[::-1][:last]):
            found[1 : edge.size + 1] += edge
    return np.cumsum(found)
