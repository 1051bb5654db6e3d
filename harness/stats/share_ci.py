"""Interval of a share from what its requests are worth: exact binomial on the effective size.

The bounds are open-ended where nothing was seen: no bad request among n leaves an upper bound
above zero, and never a certainty.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from harness.stats.quantile_ci import require_share


@dataclass(frozen=True, kw_only=True)
class ShareInterval:
    """A share with its two-sided interval.

    Attributes:
        value: hits / n.
        low: lower bound, 0 where nothing hit.
        high: upper bound, 1 where everything hit.
        n: number of values.
        n_effective: independent values they are worth.
    """

    value: float
    low: float
    high: float
    n: int
    n_effective: float


def share_interval(hits: ArrayLike, confidence: float, n_effective: float) -> ShareInterval:
    """Share of true values with its interval, k = share x n_effective hits of n_effective.

    low = B(a/2; k, m-k+1) and high = B(1-a/2; k+1, m-k), where B is the quantile of the beta
    distribution, m = n_effective and a = 1 - confidence.

    Shapes: hits (n,).
    Source: Clopper & Pearson, Biometrika 26 (1934), 404-413.

    Raises:
        ValueError: no values, or confidence or n_effective out of range.
    """
    flags = np.asarray(hits, dtype=bool)
    require_share(confidence, "confidence")
    if not 0 < n_effective <= flags.size * (1 + 1e-12):
        msg = f"n_effective: got {n_effective}, allowed above 0 and at most n = {flags.size}"
        raise ValueError(msg)
    share, m, tail = float(flags.mean()), float(n_effective), (1 - confidence) / 2
    k = share * m
    low = float(betaincinv(k, m - k + 1, tail)) if share > 0 else 0.0
    high = float(betaincinv(k + 1, m - k, 1 - tail)) if share < 1 else 1.0
    return ShareInterval(value=share, low=low, high=high, n=flags.size, n_effective=m)
