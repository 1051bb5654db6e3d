"""Slow, plain twins of the estimators: loops and sums, written from the definitions."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Array = NDArray[np.float64]


def binomial_ranks(m: int, q: float, confidence: float) -> tuple[int, int, float]:
    """Ranks by summing the binomial probabilities one by one."""
    tail = (1 - confidence) / 2
    mass = [float(binom.pmf(k, m, q)) for k in range(m + 1)]
    below, lower, upper = 0.0, 0, m + 1
    for k in range(m + 1):
        below += mass[k]
        if below <= tail:
            lower = k + 1
        if below >= 1 - tail and upper == m + 1:
            upper = k + 1
    return lower, upper, math.fsum(mass[lower : min(upper, m + 1)])


def autocorrelation_time(segments: Sequence[Array], q: float) -> float:
    """Geyer's sum from autocovariances counted pair by pair inside the segments."""
    values = np.concatenate(segments)
    n = values.size
    level = min(q, max(0.5, 1 - 30 / n))
    threshold = np.sort(values)[max(1, math.ceil(level * n - 1e-9)) - 1]
    series = [[1.0 if v > threshold else 0.0 for v in part] for part in segments]
    mean = sum(map(sum, series)) / n
    variance = mean * (1 - mean)
    if variance == 0:
        return 1.0

    def correlation(lag: int) -> float:
        pairs = [
            (part[i] - mean) * (part[i + lag] - mean)
            for part in series
            for i in range(len(part) - lag)
        ]
        return sum(pairs) / len(pairs) / variance

    total, previous = 0.0, math.inf
    for lag in range(0, min(max(map(len, series)) // 2, 2000), 2):
        pair = correlation(lag) + correlation(lag + 1)
        if pair <= 0:
            break
        previous = min(previous, pair)
        total += previous
    return min(float(n), max(1.0, 2 * total - 1))


def resampled_log_se(values: Array, q: float, draws: int, rng: np.random.Generator) -> float:
    """Standard deviation of the log order statistic over plain bootstrap draws."""
    n = values.size
    rank = math.ceil(q * n)
    logs = []
    for _ in range(draws):
        sample = np.sort(values[rng.integers(0, n, n)])
        logs.append(math.log(sample[rank - 1]))
    return float(np.std(logs))


def least_squares_gain(y: Array, se: Array, smooth: Array, column: Array) -> float:
    """Fall of the weighted squared residual when one column joins the smooth ones."""

    def left(design: Array) -> float:
        weights = np.linalg.lstsq(design / se[:, None], y / se, rcond=None)[0]
        return float((((y - design @ weights) / se) ** 2).sum())

    return left(smooth) - left(np.column_stack([smooth, column]))


def mixture_residual(y: Array, se: Array, basis: Array, column: Array | None) -> float:
    """Smallest squared residual on the log scale over all active sets, by a general minimiser."""
    from scipy.optimize import least_squares

    best = math.inf
    n_basis = basis.shape[1]
    for size in range(1, n_basis + 1):
        for active in itertools.combinations(range(n_basis), size):
            part = basis[:, active]
            if (part.max(axis=1) <= 0).any():
                continue
            start = np.log(np.full(size, np.exp(y.mean()) / size) / part.mean(axis=0))
            if column is not None:
                start = np.append(start, 0.0)

            def residual(p: Array, part: Array = part, size: int = size) -> Array:
                curve = np.log(part @ np.exp(np.clip(p[:size], -40, 40)))
                jump = p[size] * column if column is not None else 0.0
                out: Array = (y - curve - jump) / se
                return out

            best = min(best, 2 * float(least_squares(residual, start, max_nfev=400).cost))
    return best


def tail_means(components: Array, total: Array, n_tail: int) -> Array:
    """Mean of each component over the n_tail largest totals, picked one by one."""
    slowest = sorted(range(total.size), key=lambda i: -total[i])[:n_tail]
    return np.array(
        [sum(components[i][c] for i in slowest) / n_tail for c in range(components.shape[1])]
    )


def sequential_ranks(m: int, q: float, confidence: float, r: float) -> tuple[int, int]:
    """Ranks of the beta-binomial sequence: the mixture as a product of predictive probabilities."""
    inside = []
    for n_below in range(m + 1):
        log_mixture, below, above = 0.0, 0, 0
        for i in range(m):
            is_below = i < n_below
            predicted = (r * q + below) / (r + i)
            log_mixture += math.log(predicted / q if is_below else (1 - predicted) / (1 - q))
            below, above = below + is_below, above + (not is_below)
        if log_mixture < -math.log(1 - confidence):
            inside.append(n_below)
    return inside[0], inside[-1] + 1
