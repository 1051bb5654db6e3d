"""Intervals of several quantiles of one cell, out of a single sort.

A cell's line shows three quantiles of seven metrics. Each quantile has its own effective size, for
slow requests cluster otherwise than those in the middle; what they share is the order.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.ess import ess_above, indicator_level
from harness.stats.quantile_ci import (
    QuantileInterval,
    finite_or_inf,
    quantile_interval,
    quantile_rank,
    require_share,
)


def cell_intervals(
    segments: Sequence[ArrayLike], quantiles: Sequence[float], confidence: float
) -> tuple[QuantileInterval, ...]:
    """`quantile_interval` of each quantile, on its `indicator_ess`.

    Shapes: each segment (n_s,), in order of time.

    Raises:
        ValueError: no segment, an empty one, NaN, or a quantile or confidence outside (0, 1).
    """
    parts = [finite_or_inf(part, f"segment {i}") for i, part in enumerate(segments)]
    if not parts:
        msg = "segments: got none, allowed at least one"
        raise ValueError(msg)
    ordered = np.sort(np.concatenate(parts))
    found = []
    for q in quantiles:
        require_share(q, "q")
        level = indicator_level(ordered.size, q)
        threshold = float(ordered[quantile_rank(ordered.size, level) - 1])
        size = ess_above(parts, threshold, level)
        found.append(quantile_interval(ordered, q, confidence, size.n_effective))
    return tuple(found)
