"""Whether a cell's slow requests came evenly: what warms up, drifts, or grows like a queue.

Looks at the 0/1 series "slower than a high quantile", cut into blocks. A rate that moves by chance
is no trend: blocks are judged with the correlation that the requests have, and a trend counts only
where it is also large enough to matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtr

from harness.stats.ess import EffectiveSize, indicator_ess, indicator_threshold

Array = NDArray[np.float64]
ALPHA: Final = 0.001
"""A cell is looked at after every round, and there are many cells."""
LEAST_RATIO: Final = 1.5
"""Of the rate of slow requests in the last third to that in the first, or the other way round."""
CUT_ALPHA: Final = 1e-4
MOST_CUT: Final = 0.25
"""Of a segment: what is longer is no warm-up."""


class Trend(StrEnum):
    """Which way the rate of slow requests moves."""

    NONE = "none"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, kw_only=True)
class Stationarity:
    """What was found.

    Attributes:
        inside: trend within segments, all of them together: a queue that grows while it is fed.
        across: trend from the first segment to the last: a drift of server or machine.
        p_inside: chance of such a trend where there is none.
        p_across: likewise.
        ratio_inside: rate of slow requests in the last third of the segments to the first.
        ratio_across: rate in the last third of all values to the first.
    """

    inside: Trend
    across: Trend
    p_inside: float
    p_across: float
    ratio_inside: float
    ratio_across: float


def warm_up(segment: Array, threshold: float) -> int:
    """Values at the begin of a segment that are still warming up: slower than what follows.

    MSER on the indicator of "slower than the threshold": the cut d, at most a quarter, with the
    least variance of the mean of what is left; taken only where so many slow values before it come
    by chance once in ten thousand times: to cut chance's would make the tail look shorter.
    Source: White, An effective truncation heuristic for bias reduction in simulation output,
        Simulation 69 (1997).
    """
    hit = (segment > threshold).astype(float)
    n = hit.size
    last = int(n * MOST_CUT)
    if last < 1:
        return 0
    left = np.arange(n, n - last - 1, -1.0)
    slow = hit.sum() - np.concatenate([[0.0], np.cumsum(hit[:last])])
    rate = slow / left
    cut = int(np.argmin(rate * (1 - rate) / left))
    if cut == 0:
        return 0
    by_chance = bdtrc(float(hit[:cut].sum()) - 1, cut, float(hit.mean()))
    return cut if by_chance < CUT_ALPHA else 0


def stationarity(segments: Sequence[Array], q: float) -> Stationarity:
    """Trends of the rate of slow values, within and across segments.

    Slow is beyond the highest quantile, at most q, with 30 exceedances. With hit i at time t_i and
    rate p, the score sum (t_i - mean t)(hit_i - p) has variance tau p (1 - p) sum (t_i - mean t)^2
    where the rate is constant; tau is the indicator's autocorrelation time. Within segments the
    time is the place in the segment, centred there, so that levels of segments do not enter.

    Shapes: each segment (n_s,), in order of time.
    Source: Armitage, Tests for linear trends in proportions and frequencies, Biometrics 11 (1955).
    """
    size = indicator_ess(segments, q)
    threshold = indicator_threshold(segments, size)
    hits = [(part > threshold).astype(float) for part in segments]
    places = [np.linspace(-0.5, 0.5, part.size) if part.size > 1 else np.zeros(1) for part in hits]
    inside_p, inside_up = _trend(
        np.concatenate([hit - hit.mean() for hit in hits]), np.concatenate(places), size
    )
    whole = np.concatenate(hits)
    time = np.linspace(-0.5, 0.5, whole.size)
    across_p, across_up = _trend(whole - whole.mean(), time, size)
    ratio_inside = _ratio(
        np.concatenate([_third(hit, 0) for hit in hits]),
        np.concatenate([_third(hit, 2) for hit in hits]),
    )
    ratio_across = _ratio(_third(whole, 0), _third(whole, 2))
    return Stationarity(
        inside=_word(inside_p, ratio_inside, is_up=inside_up),
        across=_word(across_p, ratio_across, is_up=across_up),
        p_inside=inside_p,
        p_across=across_p,
        ratio_inside=ratio_inside,
        ratio_across=ratio_across,
    )


def _trend(centred: Array, time: Array, size: EffectiveSize) -> tuple[float, bool]:
    """Two-sided p of the score, and whether it points up."""
    rate = 1 - size.indicator_q
    variance = size.tau * rate * (1 - rate) * float(time @ time)
    if variance <= 0:
        return 1.0, False
    z = float(time @ centred) / math.sqrt(variance)
    return float(2 * ndtr(-abs(z))), z > 0


def _third(hit: Array, which: int) -> Array:
    edges = [round(hit.size * part / 3) for part in range(4)]
    return hit[edges[which] : edges[which + 1]]


def _ratio(first: Array, last: Array) -> float:
    """Of the two rates, half a hit added to each so that none is zero."""
    if not first.size or not last.size:
        return 1.0
    return float((last.sum() + 0.5) / last.size / ((first.sum() + 0.5) / first.size))


def _word(p: float, ratio: float, *, is_up: bool) -> Trend:
    is_large = ratio >= LEAST_RATIO if is_up else ratio <= 1 / LEAST_RATIO
    if p >= ALPHA or not is_large:
        return Trend.NONE
    return Trend.UP if is_up else Trend.DOWN
