"""Whether two series go together: Pearson's r, its interval, and how many values it stands on.

r is a matter of one setting: values of several settings thrown together correlate by what separates
the settings. Where r is undefined there is none, with the reason, never 0.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from harness.stats.quantile_ci import require_share

LEAST = 4
"""Fewest values with an interval: its standard error has n - 3."""


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Pearson's r with its two-sided interval.

    Attributes:
        r: None where it is undefined.
        low: lower bound; None with r, and -1 where too few of the values are independent.
        high: upper bound; likewise.
        n: pairs.
        n_effective: independent pairs they are worth, where values next to each other are alike.
        reason: why there is no r; empty where there is one.
    """

    r: float | None
    low: float | None
    high: float | None
    n: int
    n_effective: float
    reason: str = ""


def pearson(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> Correlation:
    """Correlate pairs in the order in which they were measured.

    atanh r is normal with standard error 1 / sqrt(n_effective - 3), with
    n_effective = n (1 - a b) / (1 + a b), a and b the lag-1 autocorrelations, never above n.

    Shapes: x and y (n,).
    Source: Fisher, On the probable error of a coefficient of correlation, 1921; Bretherton et al.,
    The effective number of spatial degrees of freedom, 1999, eq. 31 (from Bartlett, 1935).

    Raises:
        ValueError: shapes differ, or confidence out of range.
    """
    one, two = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if one.shape != two.shape or one.ndim != 1:
        raise ValueError(f"got {one.shape} and {two.shape}, allowed two of (n,)")
    require_share(confidence, "confidence")
    reason = _why_not(one, two)
    if reason:
        return Correlation(
            r=None, low=None, high=None, n=len(one), n_effective=float(len(one)), reason=reason
        )
    first, second = _standard(one), _standard(two)
    n_effective = _n_effective(first, second)
    r = max(-1.0, min(1.0, float(first @ second)))
    if n_effective <= 3:
        return Correlation(r=r, low=-1.0, high=1.0, n=len(one), n_effective=n_effective)
    half = float(ndtri((1 + confidence) / 2)) / math.sqrt(n_effective - 3)
    low, high = (_tanh_of(r, sign * half) for sign in (-1, 1))
    return Correlation(r=r, low=low, high=high, n=len(one), n_effective=n_effective)


def _why_not(one: NDArray[np.float64], two: NDArray[np.float64]) -> str:
    if len(one) < LEAST:
        return f"{len(one)} values; {LEAST} are needed"
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return "values that are no finite numbers"
    for name, values in (("first", one), ("second", two)):
        if np.ptp(values) <= 1e-12 * np.abs(values).max():
            return f"the {name} series does not vary"
    return ""


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean 0, length 1; scaled first, so that no square overflows."""
    scaled = values / np.abs(values).max()
    centred = scaled - scaled.mean()
    result: NDArray[np.float64] = centred / np.linalg.norm(centred)
    return result


def _n_effective(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    both = float(first[:-1] @ first[1:]) * float(second[:-1] @ second[1:])
    n = len(first)
    return min(float(n), n * (1 - both) / (1 + both))


def _tanh_of(r: float, shift: float) -> float:
    return r if abs(r) == 1 else math.tanh(math.atanh(r) + shift)
