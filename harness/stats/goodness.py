"""Whether draws follow a distribution, or two sets of draws the same one: likelihood-ratio tests.

The statistic is 2 N KL(observed || expected). A divergence estimated from draws is above zero by
(K - 1) / 2N on average even when nothing differs, so it is never held against a bare threshold: the
statistic is compared with chi-square of K - 1 degrees of freedom.
Source: Wilks, The large-sample distribution of the likelihood ratio, 1938; Williams, Improved
likelihood ratio tests for complete contingency tables, 1976 (the correction for small counts).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr
from scipy.stats import chi2

LEAST_EXPECTED = 5.0
"""Bins that expect fewer are merged into one."""


@dataclass(frozen=True, kw_only=True)
class Goodness:
    """One test.

    Attributes:
        statistic: 2 N KL over Williams' correction; +inf where something impossible was drawn.
        freedom: degrees of freedom; 0 where only one outcome is possible.
        n: draws looked at, of both sets where there are two.
    """

    statistic: float
    freedom: int
    n: int

    @property
    def p_value(self) -> float:
        """Chance of a statistic at least this large when nothing differs."""
        if np.isinf(self.statistic):
            return 0.0
        return float(chi2.sf(self.statistic, self.freedom)) if self.freedom else 1.0

    @property
    def divergence(self) -> float:
        """KL per draw with the bias of finite samples, freedom / 2N, taken off; below 0 by luck."""
        return (self.statistic - self.freedom) / (2 * self.n) if self.n else 0.0


def judge_draws(counts: ArrayLike, probabilities: ArrayLike) -> Goodness:
    """Compare counted draws with the distribution they should follow.

    Shapes: counts and probabilities (n_outcomes,), the latter with sum 1.

    Raises:
        ValueError: shapes differ, or the probabilities are none.
    """
    seen, wanted = np.asarray(counts, dtype=float), np.asarray(probabilities, dtype=float)
    if seen.shape != wanted.shape or seen.ndim != 1:
        raise ValueError(f"got counts {seen.shape} and probabilities {wanted.shape}, allowed (n,)")
    if (wanted < 0).any() or not np.isclose(wanted.sum(), 1.0, atol=1e-6):
        raise ValueError(f"probabilities: got a sum of {wanted.sum():g}, allowed 1, none negative")
    n = seen.sum()
    if seen[wanted == 0].any():
        return Goodness(statistic=np.inf, freedom=0, n=int(n))
    seen, expected = _merge(seen, wanted * n, wanted * n)
    freedom = max(0, len(expected) - 1)
    if not freedom:
        return Goodness(statistic=0.0, freedom=0, n=int(n))
    correction = 1 + (float((n / expected).sum()) - 1) / (6 * n * freedom)
    statistic = 2 * float(rel_entr(seen, expected).sum()) / correction
    return Goodness(statistic=statistic, freedom=freedom, n=int(n))


def judge_same(first: ArrayLike, second: ArrayLike) -> Goodness:
    """Compare two independent sets of counted draws with each other.

    Shapes: both (n_outcomes,).

    Raises:
        ValueError: shapes differ.
    """
    one, two = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.shape != two.shape or one.ndim != 1:
        raise ValueError(f"got counts {one.shape} and {two.shape}, allowed two of (n,)")
    n_one, n_two = one.sum(), two.sum()
    n = n_one + n_two
    if not n_one or not n_two:
        return Goodness(statistic=0.0, freedom=0, n=int(n))
    least = (one + two) * min(n_one, n_two) / n
    one, two = _merge(one, two, least)
    freedom = max(0, len(one) - 1)
    if not freedom:
        return Goodness(statistic=0.0, freedom=0, n=int(n))
    both = one + two
    raw = rel_entr(one, both * (n_one / n)).sum() + rel_entr(two, both * (n_two / n)).sum()
    rows, columns = n / n_one + n / n_two - 1, float((n / both).sum()) - 1
    correction = 1 + rows * columns / (6 * n * freedom)
    return Goodness(statistic=2 * float(raw) / correction, freedom=freedom, n=int(n))


def together(tests: Sequence[Goodness]) -> Goodness:
    """Fold independent tests into one: statistics and degrees of freedom add up."""
    return Goodness(
        statistic=sum(each.statistic for each in tests),
        freedom=sum(each.freedom for each in tests),
        n=sum(each.n for each in tests),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that all decisions at a level hold together, in the order given.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(1.0, worst)
    return adjusted


def _merge(
    one: NDArray[np.float64], two: NDArray[np.float64], expected: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Put the bins that expect too little into one, that one with the next if it still does."""
    order = np.argsort(expected, kind="stable")
    n_rare = int((expected < LEAST_EXPECTED).sum())
    while 0 < n_rare < len(order) and expected[order[:n_rare]].sum() < LEAST_EXPECTED:
        n_rare += 1
    rare, rest = order[:n_rare], order[n_rare:]
    parts = [
        np.append(values[rest], values[rare].sum()) if n_rare else values[rest]
        for values in (one, two)
    ]
    return parts[0], parts[1]
