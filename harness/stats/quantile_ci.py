"""Interval of a quantile from exact binomial ranks on the effective sample size.

Answers "P99 plus or minus what?". The bounds are order statistics of the sample, so they need no
assumption about the shape of the distribution, and where the sample cannot carry a bound it is
infinite: a two-sided 95 % interval of P99 needs 368 independent values.
The effective sample size comes from `harness.stats.ess`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from harness.stats.caveat import Caveat, CaveatKind


@dataclass(frozen=True, kw_only=True)
class QuantileInterval:
    """A quantile with its two-sided interval.

    Attributes:
        q: the quantile asked for, in (0, 1).
        confidence: nominal confidence of the interval.
        value: order statistic of rank ceil(q n); never interpolated.
        low: lower bound, -inf where the sample carries none.
        high: upper bound, +inf where the sample carries none.
        n: number of values.
        n_effective: number of independent values they are worth.
        actual_confidence: coverage of the ranks used, for independent values.
        n_needed: values like these needed for two finite bounds; None where both are finite.
        caveats: what limits the result.
    """

    q: float
    confidence: float
    value: float
    low: float
    high: float
    n: int
    n_effective: float
    actual_confidence: float
    n_needed: int | None
    caveats: tuple[Caveat, ...] = ()


def quantile_interval(
    values: ArrayLike, q: float, confidence: float = 0.95, n_effective: float | None = None
) -> QuantileInterval:
    """Value of quantile `q` with its distribution-free two-sided interval.

    With m = floor(n_effective) and B ~ Binomial(m, q), the ranks are the largest l with
    P(B <= l-1) <= a/2 and the smallest u with P(B <= u-1) >= 1 - a/2, where a = 1 - confidence.
    They are carried to the n sorted values outwards: floor(l (n+1)/(m+1)) and ceil(u n/m).

    Shapes: values (n,).
    Units: those of `values`; +inf is allowed and stands for "never ended".
    Source: David & Nagaraja, Order Statistics, 3rd ed., section 7.1.

    Raises:
        ValueError: no values, NaN among them, or q, confidence or n_effective out of range.
    """
    require_share(q, "q")
    require_share(confidence, "confidence")
    n = np.size(values)
    effective = float(n) if n_effective is None else float(n_effective)
    m = max(1, math.floor(effective + 1e-9)) if effective > 0 else 1
    lower, upper, actual = binomial_ranks(m, q, confidence)
    return interval_of_ranks(
        values,
        q,
        confidence=confidence,
        n_effective=effective,
        ranks=(lower, upper),
        needed=n_for_finite(q, confidence),
        actual_confidence=actual,
    )


def interval_of_ranks(
    values: ArrayLike,
    q: float,
    *,
    confidence: float,
    n_effective: float,
    ranks: tuple[int, int],
    needed: int,
    actual_confidence: float | None = None,
) -> QuantileInterval:
    """The interval between two ranks out of floor(n_effective), carried to the values outwards.

    `needed`: effective values from which on both bounds are finite.

    Raises:
        ValueError: no values, NaN among them, or n_effective out of range.
    """
    sample = finite_or_inf(values, "values")
    n = sample.size
    if not 0 < n_effective <= n * (1 + 1e-12):
        msg = f"n_effective: got {n_effective}, allowed above 0 and at most n = {n}"
        raise ValueError(msg)
    m = max(1, math.floor(n_effective + 1e-9))
    lower, upper = ranks
    low_rank = math.floor(lower * (n + 1) / (m + 1)) if lower else 0
    high_rank = min(n, math.ceil(upper * n / m)) if upper <= m else n + 1
    rank = quantile_rank(n, q)
    value, low, high = _order_statistics(sample, rank, low_rank, high_rank)
    is_open = lower == 0 or upper > m
    n_needed = math.ceil(needed * n / m) if is_open else None
    return QuantileInterval(
        q=q,
        confidence=confidence,
        value=value,
        low=low,
        high=high,
        n=n,
        n_effective=n_effective,
        actual_confidence=confidence if actual_confidence is None else actual_confidence,
        n_needed=n_needed,
        caveats=_caveats(value, low, high, n, n_effective, n_needed),
    )


def quantile_rank(n: int, q: float) -> int:
    """Rank ceil(q n) of the order statistic that is quantile `q` of `n` values; 1-based."""
    return min(n, max(1, math.ceil(q * n - 1e-9)))


@lru_cache(maxsize=4096)
def binomial_ranks(m: int, q: float, confidence: float) -> tuple[int, int, float]:
    """Ranks (l, u) out of m, and their exact coverage P(l <= B <= u-1), B ~ Binomial(m, q).

    l = 0 and u = m + 1 mean that no order statistic bounds the quantile on that side.
    """
    tail = (1 - confidence) / 2
    spread = 10 * math.sqrt(m * q * (1 - q)) + 10
    first = max(0, math.floor(m * q - spread))
    last = min(m, math.ceil(m * q + spread))
    below = bdtr(np.arange(first, last + 1, dtype=float), m, q)  # P(B <= first), ..., P(B <= last)
    lower = first + int(np.searchsorted(below, tail, side="right"))
    upper = first + int(np.searchsorted(below, 1 - tail, side="left")) + 1
    coverage = float(bdtr(float(min(upper - 1, m)), m, q))
    if lower:
        coverage -= float(bdtr(float(lower - 1), m, q))
    return lower, upper, coverage


def n_for_finite(q: float, confidence: float) -> int:
    """Smallest number of independent values with two finite bounds: max of ln(a/2)/ln(q or 1-q)."""
    tail = math.log((1 - confidence) / 2)
    return math.ceil(max(tail / math.log(q), tail / math.log(1 - q)) - 1e-9)


def finite_or_inf(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """`values` as a flat float array, or a ValueError that says what came."""
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or sample.size == 0:
        msg = f"{name}: got shape {sample.shape}, allowed one axis with at least one value"
        raise ValueError(msg)
    n_nan = int(np.isnan(sample).sum())
    if n_nan:
        msg = f"{name}: got {n_nan} NaN among {sample.size}, allowed numbers; drop or count them"
        raise ValueError(msg)
    return sample


def require_share(value: float, name: str) -> None:
    """ValueError unless 0 < value < 1."""
    if not 0 < value < 1:
        msg = f"{name}: got {value}, allowed above 0 and below 1"
        raise ValueError(msg)


def _order_statistics(
    sample: NDArray[np.float64], rank: int, low_rank: int, high_rank: int
) -> tuple[float, float, float]:
    """Order statistics of the three ranks (1-based); infinite where a rank lies outside 1..n."""
    n = sample.size
    inside = sorted({r - 1 for r in (rank, low_rank, high_rank) if 1 <= r <= n})
    part = np.partition(sample, inside)
    low = float(part[low_rank - 1]) if low_rank >= 1 else -math.inf
    high = float(part[high_rank - 1]) if high_rank <= n else math.inf
    return float(part[rank - 1]), low, high


def _caveats(
    value: float, low: float, high: float, n: int, effective: float, needed: int | None
) -> tuple[Caveat, ...]:
    found = []
    if needed is not None:
        text = f"{n} values worth {effective:.0f} independent ones; both bounds need {needed}."
        found.append(Caveat(CaveatKind.OPEN_BOUND, text))
    if low == value == high:
        found.append(Caveat(CaveatKind.TIES, f"Both bounds equal the value {value:g}: ties."))
    if math.isinf(value):
        found.append(Caveat(CaveatKind.CENSORED, "The quantile itself is unbounded."))
    return tuple(found)
