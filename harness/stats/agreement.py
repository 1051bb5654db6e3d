"""Whether starts of a server agree: rank-normalised split R-hat.

Necessary and weak: starts that differ by 3 % pass it more often than not. It catches a start that
settled at another level, which no number of requests to one start would show.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

Array = NDArray[np.float64]
LEAST_HALF: Final = 10
"""Values in the shorter halves: fewer say nothing of agreement."""


def r_hat(starts: Sequence[Array], threshold: float) -> float | None:
    """The larger of R-hat of the normalised ranks and of the indicator "above the threshold".

    Each start is split in two, so that a level which moves within a start counts as well. With M
    halves of N values, W the mean of their variances and B / N the variance of their means,
    R-hat = sqrt((N - 1) / N + B / (N W)).

    None with one start, or with fewer than ten values in a half.

    Shapes: starts[i] (n_i,), in order of time.
    Source: Vehtari, Gelman, Simpson, Carpenter & Buerkner, Rank-normalization, folding, and
        localization: an improved R-hat, Bayesian Analysis 16 (2021).
    """
    shortest = min((start.size // 2 for start in starts), default=0)
    if len(starts) < 2 or shortest < LEAST_HALF:
        return None
    halves = np.array([half for start in starts for half in (start[:shortest], start[-shortest:])])
    ranks = rankdata(halves, axis=None).reshape(halves.shape)
    normal = ndtri((ranks - 0.375) / (halves.size + 0.25))
    return max(_r_hat(normal), _r_hat((halves > threshold).astype(float)))


def _r_hat(halves: Array) -> float:
    n = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within == 0:
        return 1.0 if between == 0 else math.inf
    return math.sqrt((n - 1) / n + between / within)
