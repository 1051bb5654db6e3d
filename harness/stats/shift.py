"""Whether a level moved between two times, and by how many times its normal noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, mannwhitneyu, norm, rankdata

LEAST: Final = 4
"""Values a side below which nothing is said."""
RESOLUTION: Final = 0.02
"""Noise of a level that never moved, of its size: no change is counted in zeros."""


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A level in two times.

    Attributes:
        before: median of the first.
        after: median of the second.
        effect: (after - before) / noise; the noise is the standard deviation of the first, at
            least 2 % of the larger level, so that an effect is at most 50 where nothing moved.
        p: probability of ranks at least as unequal if nothing had changed; larger where values that
            follow each other are alike in the first, as if there were fewer of them.
    """

    before: float
    after: float
    effect: float
    p: float


def shift(before: ArrayLike, after: ArrayLike) -> Shift | None:
    """Two-sided rank test of slices of two times; None with fewer than four values a side.

    Shapes: before (n,), after (m,); NaN is left out.
    Source: Mann & Whitney, Annals of Mathematical Statistics 18 (1947), 50-60; the variance of a
    mean of correlated values by Bartlett, JRSS Supplement 8 (1946), 27-41.
    """
    first, second = (_known(values) for values in (before, after))
    if min(first.size, second.size) < LEAST:
        return None
    low, high = float(np.median(first)), float(np.median(second))
    noise = max(float(first.std(ddof=1)), RESOLUTION * max(abs(low), abs(high)))
    effect = (high - low) / noise if noise else 0.0
    z = float(norm.isf(mannwhitneyu(first, second).pvalue / 2)) / math.sqrt(_inflation(first))
    return Shift(before=low, after=high, effect=effect, p=float(2 * norm.sf(z)))


def _inflation(values: np.ndarray) -> float:
    """(1 + r) / (1 - r), r the lag-1 autocorrelation of the ranks where it is positive."""
    ranks = rankdata(values)
    away = ranks - ranks.mean()
    whole = float(away @ away)
    r = max(0.0, float(away[:-1] @ away[1:]) / whole) if whole else 0.0
    return (1 + r) / (1 - r)


def held_in_check(ps: Sequence[float], rate: float = 0.05) -> list[bool]:
    """Which of many tests stand, so that at most that share of those is expected to be false.

    Source: Benjamini & Hochberg, JRSS B 57 (1995), 289-300.
    """
    if not len(ps):
        return []
    adjusted = np.asarray(false_discovery_control(np.asarray(ps, dtype=float)))
    return [bool(p <= rate) for p in adjusted]


def _known(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    known: np.ndarray = array[np.isfinite(array)]
    return known
