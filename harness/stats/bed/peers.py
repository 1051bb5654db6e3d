"""Intervals of a quantile as others make them, from their definitions.

Each takes the values in order of time and a nominal 95 % and returns two bounds. They take requests
as independent, but for the block bootstrap and the batches.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincinv, stdtrit

from harness.stats.bed.marginals import Array
from harness.stats.quantile_ci import quantile_interval

Bounds = tuple[float, float]
Z = 1.959963984540054
BLOCK_DRAWS = 100
BATCHES = 10


def binomial(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Exact binomial ranks, all values counted as independent."""
    del rng
    found = quantile_interval(values, q)
    return found.low, found.high


def normal_ranks(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Ranks floor(nq - z s) and ceil(nq + z s) + 1, s = sqrt(nq(1-q)), as Lancet publishes them.

    Source: Le Boudec, Performance Evaluation, section 2.2.2.
    """
    del rng
    ordered, n = np.sort(values), values.size
    spread = Z * math.sqrt(n * q * (1 - q))
    low, high = math.floor(n * q - spread), math.ceil(n * q + spread) + 1
    return _at(ordered, low), _at(ordered, high)


def bootstrap(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Percentile bootstrap of the order statistic, in the limit of infinitely many draws.

    P(X*_(k) <= x_(i)) = I(i/n; k, n-k+1) with k = ceil(nq): so the bounds need no drawing.
    """
    del rng
    ordered, n = np.sort(values), values.size
    k = math.ceil(n * q - 1e-9)
    low, high = betaincinv(k, n - k + 1, [0.025, 0.975])
    return _at(ordered, math.ceil(n * low)), _at(ordered, math.ceil(n * high))


def block_bootstrap(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Percentile bootstrap of moving blocks of length ceil(n^(1/3))."""
    n = values.size
    length = math.ceil(n ** (1 / 3) - 1e-9)
    n_blocks = math.ceil(n / length)
    order, k = np.argsort(values, kind="stable"), math.ceil(q * n_blocks * length - 1e-9)
    found = []
    for begins in rng.integers(0, n - length + 1, (BLOCK_DRAWS, n_blocks)):
        steps = np.bincount(begins, minlength=n + 1) - np.bincount(begins + length, minlength=n + 1)
        times = np.cumsum(steps)[:n][order]
        found.append(values[order[np.searchsorted(np.cumsum(times), k)]])
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def batch_means(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Mean of the quantiles of ten batches, with Student's t."""
    del rng
    parts = [np.sort(part) for part in np.array_split(values, BATCHES)]
    found = np.array([part[math.ceil(part.size * q - 1e-9) - 1] for part in parts])
    half = float(stdtrit(BATCHES - 1, 0.975) * found.std(ddof=1) / math.sqrt(BATCHES))
    return float(found.mean()) - half, float(found.mean()) + half


def harrell_davis(values: Array, q: float, rng: np.random.Generator) -> Bounds:
    """Beta-weighted mean of all order statistics, plus or minus z of its Maritz-Jarrett error.

    Source: Harrell & Davis, Biometrika 69 (1982); Maritz & Jarrett, JASA 73 (1978).
    """
    del rng
    ordered, weights = np.sort(values), _weights(values.size, q)
    middle = float(weights @ ordered)
    half = Z * math.sqrt(float(weights @ (ordered - middle) ** 2))
    return middle - half, middle + half


PEERS: dict[str, Callable[[Array, float, np.random.Generator], Bounds]] = {
    "binomial": binomial,
    "normal ranks": normal_ranks,
    "bootstrap": bootstrap,
    "block bootstrap": block_bootstrap,
    "10 batches": batch_means,
    "Harrell-Davis": harrell_davis,
}


@lru_cache(maxsize=16)
def _weights(n: int, q: float) -> Array:
    edges = betainc((n + 1) * q, (n + 1) * (1 - q), np.arange(n + 1) / n)
    weights: Array = np.diff(edges)
    return weights


def _at(ordered: Array, rank: int) -> float:
    """Order statistic of a rank from 1 to n, infinite outside."""
    if rank < 1:
        return -math.inf
    return float(ordered[rank - 1]) if rank <= ordered.size else math.inf
