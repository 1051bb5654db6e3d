"""Interval of a quantile that may be looked at again and again: a beta-binomial sequence.

An interval of `quantile_ci` holds at one sample size that was fixed before. Whoever looks after
every round and stops when it is narrow is wrong far more often than it says. Here the chance of
ever being wrong, over all looks together, is at most 1 - confidence for independent values.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaln

from harness.stats.quantile_ci import QuantileInterval, interval_of_ranks, require_share

TUNING: Final = 8.0
"""Planned size over the prior's: where the sequence is narrowest at the planned size."""
LEAST_PRIOR: Final = 50.0
MOST_PRIOR: Final = 20_000.0
REACH: Final = 12.0
"""No count further than this many standard deviations from the mean is ever inside."""


def sequential_interval(
    values: np.ndarray, q: float, *, confidence: float, n_effective: float, planned: float
) -> QuantileInterval:
    """Value of quantile `q` with an interval that holds at all looks together.

    With S_t of t values at or below x, and a = r q, b = r (1 - q),

        M_t = B(a + S_t, b + t - S_t) / (B(a, b) q^S_t (1 - q)^(t - S_t))

    is a martingale where x is the quantile, so that M_t >= 1 / alpha ever happens with probability
    alpha at most. The interval is every x with M_t below that. r = planned / 8 makes it narrowest
    at about `planned` effective values, which must be fixed before the first look.

    Correlated values enter with their effective size: the ranks are those of floor(n_effective)
    values, carried to all of them. That is no martingale any more; the error that it makes is
    measured on the bed.

    Shapes: values (n,).
    Source: Robbins, Statistical methods related to the law of the iterated logarithm, Ann. Math.
        Stat. 41 (1970); Howard & Ramdas, Sequential estimation of quantiles, Bernoulli 28 (2022).

    Raises:
        ValueError: no values, NaN among them, or q, confidence or n_effective out of range.
    """
    require_share(q, "q")
    require_share(confidence, "confidence")
    m = max(1, math.floor(n_effective + 1e-9))
    ranks = sequential_ranks(m, q, confidence, prior_size(planned))
    needed = n_for_finite_sequence(q, confidence, prior_size(planned))
    return interval_of_ranks(
        values, q, confidence=confidence, n_effective=n_effective, ranks=ranks, needed=needed
    )


def prior_size(planned: float) -> float:
    """The prior's r for this planned number of effective values."""
    return min(MOST_PRIOR, max(LEAST_PRIOR, planned / TUNING))


@lru_cache(maxsize=4096)
def sequential_ranks(m: int, q: float, confidence: float, r: float) -> tuple[int, int]:
    """Ranks (l, u) out of m; l = 0 and u = m + 1 mean that no order statistic is a bound."""
    a, b = r * q, r * (1 - q)
    reach = REACH * math.sqrt(m * q * (1 - q)) + REACH
    counts = np.arange(max(0, math.floor(m * q - reach)), min(m, math.ceil(m * q + reach)) + 1.0)
    log_m = (
        betaln(a + counts, b + m - counts)
        - betaln(a, b)
        - counts * math.log(q)
        - (m - counts) * math.log1p(-q)
    )
    inside = np.flatnonzero(log_m < -math.log(1 - confidence))
    return int(counts[inside[0]]), int(counts[inside[-1]]) + 1


@lru_cache(maxsize=256)
def n_for_finite_sequence(q: float, confidence: float, r: float) -> int:
    """Smallest number of independent values with two finite bounds."""
    low, high = 1, 2
    while not _is_finite(high, q, confidence, r):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_finite(middle, q, confidence, r) else (middle, high)
    return high


def _is_finite(m: int, q: float, confidence: float, r: float) -> bool:
    lower, upper = sequential_ranks(m, q, confidence, r)
    return lower >= 1 and upper <= m
