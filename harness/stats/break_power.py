"""The smallest jump that the grid and its errors would have shown."""

import math

import numpy as np
from scipy.stats import norm

from harness.stats.break_search import Search
from harness.stats.candidates import Shape
from harness.stats.smooth import Array

POWER = 0.8


def detectable_jump(y: Array, search: Search, minimum: float) -> float | None:
    """Relative size of a jump found with 80 % power in every place searched, at least `minimum`.

    A jump of d log units at place k gives family f a gain with mean root d sqrt(g), where g is the
    squared length of its column beside the family in units of the errors; it must exceed the
    root of the threshold c of the family. Hence, with u the 80 % point of the normal law,

        d = max over k and f of (sqrt(c_f) + u) / sqrt(g_kf),    size = exp(d) - 1.
    """
    columns = search.grid.candidates.columns[:, search.grid.candidates.is_shape(Shape.JUMP)]
    if columns.shape[1] == 0:
        return None
    worst = 0.0
    for null, threshold in zip(search.nulls, search.thresholds, strict=True):
        local = null.local(y, np.empty((y.size, 0)))
        length = float(np.sqrt(((local.project @ columns) ** 2).sum(axis=0)).min())
        if length < 1e-6:
            return None
        worst = max(worst, (math.sqrt(threshold) + float(norm.ppf(POWER))) / length)
    size = math.expm1(min(worst, 50.0))
    return max(size, minimum)
