"""Which component makes the slow requests slow, and which one made the break.

Works on the additive split of each request's time. The unit is the mean of a component among the
slowest requests: these means add up to the mean of the whole tail, so shares add up to one.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.quantile_ci import finite_or_inf, require_share

Array = NDArray[np.float64]
MIN_TAIL = 10
MIN_TAIL_SHARE = 0.02
MAJORITY = 0.5
CHUNK = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Components of the slow requests, largest first in `order`.

    Attributes:
        mean: mean time of each component among the slowest requests.
        share: mean over the mean total of those requests.
        low: lower ends of the shares' intervals.
        high: upper ends.
        order: component indices by falling share.
        total: mean total of the slowest requests.
        n_tail: how many requests those are.
        caveats: what limits the result.

    Shapes: mean, share, low, high, order (n_components,).
    """

    mean: Array
    share: Array
    low: Array
    high: Array
    order: NDArray[np.int64]
    total: float
    n_tail: int
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Components of a change of the tail, largest share first in `order`.

    Attributes:
        change: change of each component's tail mean from below to above.
        share: change over the total change; NaN-free, zero where there is no change to share.
        low: lower ends of the shares' intervals, -inf where there is none.
        high: upper ends, +inf where there is none.
        order: component indices by falling change.
        culprit: index of the component whose share is above one half, and above the next
            component's interval, with its whole interval.
        total_change: change of the mean total of the tail.
        total_low: lower end of its interval.
        total_high: upper end.
        caveats: what limits the result.

    Shapes: change, share, low, high, order (n_components,).
    """

    change: Array
    share: Array
    low: Array
    high: Array
    order: NDArray[np.int64]
    culprit: int | None
    total_change: float
    total_low: float
    total_high: float
    caveats: tuple[Caveat, ...] = ()


def rank_components(
    components: ArrayLike,
    total: ArrayLike,
    q: float,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_bootstrap: int = 499,
) -> Ranking:
    """Mean of each component among the slowest requests, with bootstrap intervals of its share.

    The tail holds n_tail = max((1 - q) n, 2 % of n, 10) requests with the largest total. This is
    the Euler allocation of expected shortfall: the means add up to the tail mean of the total
    where the components add up to the total.

    Shapes: components (n, n_components), total (n,).
    Source: Tasche, Capital allocation to business units and sub-portfolios: the Euler principle
        (2008), section 3.2.

    Raises:
        ValueError: shapes that do not fit, no request, or values that are not finite.
    """
    parts, whole = _checked(components, total, "requests")
    n_tail = tail_size(whole.size, q)
    mean, tail_total, draws, drawn_total = _tail_means(parts, whole, n_tail, n_bootstrap, rng)
    share = mean / tail_total if tail_total else np.zeros_like(mean)
    drawn = np.divide(
        draws, drawn_total[:, None], out=np.zeros_like(draws), where=drawn_total[:, None] != 0
    )
    low, high = _bounds(drawn, confidence)
    return Ranking(
        mean=mean,
        share=share,
        low=low,
        high=high,
        order=np.argsort(-share, kind="stable"),
        total=tail_total,
        n_tail=n_tail,
        caveats=(*_few(whole.size, n_tail), *_unexplained(1 - float(share.sum()), tail_total)),
    )


def attribute_break(
    components_below: ArrayLike,
    total_below: ArrayLike,
    components_above: ArrayLike,
    total_above: ArrayLike,
    q: float,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_bootstrap: int = 499,
) -> Attribution:
    """Share of each component in the change of the tail mean from one cell to its neighbour.

    share_c = (m_c(above) - m_c(below)) / (M(above) - M(below)), with m_c and M the means of the
    component and of the total among the slowest requests (see `rank_components`). Both cells are
    resampled independently. A culprit is named only where the lower bound of its share exceeds one
    half and the upper bound of the next component's (two may both exceed one half where others
    fall), and the interval of the total change lies above zero.

    Shapes: components (n, n_components), total (n,); n may differ between the two cells.

    Raises:
        ValueError: shapes that do not fit, no request, or values that are not finite.
    """
    below, whole_below = _checked(components_below, total_below, "below")
    above, whole_above = _checked(components_above, total_above, "above")
    if below.shape[1] != above.shape[1]:
        msg = f"components: got {below.shape[1]} below and {above.shape[1]} above, allowed alike"
        raise ValueError(msg)
    sizes = tail_size(whole_below.size, q), tail_size(whole_above.size, q)
    mean_b, total_b, draws_b, drawn_b = _tail_means(below, whole_below, sizes[0], n_bootstrap, rng)
    mean_a, total_a, draws_a, drawn_a = _tail_means(above, whole_above, sizes[1], n_bootstrap, rng)
    change, total = mean_a - mean_b, total_a - total_b
    drawn_change, drawn_total = draws_a - draws_b, drawn_a - drawn_b
    total_low, total_high = (float(v) for v in _bounds(drawn_total, confidence))
    caveats = [*_few(whole_below.size, sizes[0]), *_few(whole_above.size, sizes[1])]
    order = np.argsort(-change, kind="stable")
    share, low, high = (
        np.zeros_like(change),
        np.full_like(change, -np.inf),
        np.full_like(change, np.inf),
    )
    culprit = None
    if total <= 0 or total_low <= 0:
        text = f"The tail mean changed by {total:.4g} [{total_low:.4g}, {total_high:.4g}]: no rise."
        caveats.append(Caveat(CaveatKind.NO_CHANGE, text))
    if total > 0:
        share = change / total
        rising = drawn_total > 0
        if rising.mean() > (1 + confidence) / 2:
            low, high = _bounds(drawn_change[rising] / drawn_total[rising, None], confidence)
        rival = high[order[1]] if order.size > 1 else -np.inf
        if total_low > 0 and low[order[0]] > max(MAJORITY, rival):
            culprit = int(order[0])
        caveats += _unexplained(1 - float(share.sum()), total)
    return Attribution(
        change=change,
        share=share,
        low=low,
        high=high,
        order=order,
        culprit=culprit,
        total_change=total,
        total_low=total_low,
        total_high=total_high,
        caveats=tuple(caveats),
    )


def tail_size(n: int, q: float) -> int:
    """Number of slowest requests taken: (1 - q) n, at least 2 % of n and at least ten."""
    require_share(q, "q")
    return min(n, max(math.ceil((1 - q) * n - 1e-9), math.ceil(MIN_TAIL_SHARE * n), MIN_TAIL))


def _tail_means(
    parts: Array, whole: Array, n_tail: int, n_bootstrap: int, rng: np.random.Generator
) -> tuple[Array, float, Array, Array]:
    """Tail means (C,) and of the total, and bootstrap draws of them, (B, C) and (B,).

    A draw gives each request a Poisson(1) count, which is resampling for a sample of random size,
    and takes the slowest n_tail of what it drew; only the slowest few more than n_tail requests
    can be among them, so the others need no draw.
    """
    reach = min(whole.size, math.ceil(n_tail + 6 * math.sqrt(n_tail) + 20))
    top = np.argpartition(-whole, reach - 1)[:reach]
    top = top[np.argsort(-whole[top], kind="stable")]
    rows = np.column_stack([parts[top], whole[top]])
    means = rows[:n_tail].mean(axis=0)
    step = max(1, CHUNK // reach)
    drawn = []
    for start in range(0, n_bootstrap, step):
        counts = rng.poisson(1.0, size=(min(step, n_bootstrap - start), reach))
        upto = np.minimum(np.cumsum(counts, axis=1), n_tail)
        taken = np.diff(upto, axis=1, prepend=0).astype(float)
        drawn.append(taken @ rows / np.maximum(taken.sum(axis=1), 1)[:, None])
    draws = np.concatenate(drawn)
    return means[:-1], float(means[-1]), draws[:, :-1], draws[:, -1]


def _bounds(draws: Array, confidence: float) -> tuple[Array, Array]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high


def _few(n: int, n_tail: int) -> list[Caveat]:
    if n_tail / n <= 0.1:
        return []
    text = f"The slowest {n_tail} of {n} requests are {n_tail / n:.0%} of them, hardly a tail."
    return [Caveat(CaveatKind.TOO_FEW_SAMPLES, text)]


def _unexplained(rest: float, total: float) -> list[Caveat]:
    if abs(rest) <= 0.02 or not total:
        return []
    return [Caveat(CaveatKind.UNEXPLAINED, f"The components leave {rest:.0%} of it unexplained.")]


def _checked(components: ArrayLike, total: ArrayLike, where: str) -> tuple[Array, Array]:
    whole = finite_or_inf(total, f"{where}: total")
    parts = np.asarray(components, dtype=float)
    if parts.ndim != 2 or parts.shape[0] != whole.size or parts.shape[1] == 0:
        msg = f"{where}: got components {parts.shape} for {whole.size} totals, allowed (n, parts)"
        raise ValueError(msg)
    if not (np.isfinite(parts).all() and np.isfinite(whole).all()):
        msg = f"{where}: got values that are not finite, allowed finite; leave such requests out"
        raise ValueError(msg)
    return parts, whole
