"""A rise that grows steeper than proportional without breaking: its extent and size.

No curve is fitted: slopes are read from neighbouring cells, so the extent is never finer than the
cells are.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from harness.stats.smooth import Array

STEEP = 1.1
WINDOW = 2
"""Gaps over which one slope is taken."""


@dataclass(frozen=True)
class Rise:
    """The steep part of the curve.

    Attributes:
        low: where it begins, log2 x.
        high: where it ends.
        effect: rise of the curve from low to high, log units.
        effect_low: lower end of its interval.
        effect_high: upper end.
    """

    low: float
    high: float
    effect: float
    effect_low: float
    effect_high: float


def steep_rise(y: Array, z: Array, se: Array, confidence: float) -> Rise | None:
    """The steepest part of the curve where it is clearly above proportional, or None.

    b_i is the slope d log y / d log x from cell i to cell i + 2 (1 means proportional to x), e_i
    its standard error. The steepest b must exceed 1.1, and the least b of the windows that end
    before it begins, each by u e, where u is the normal point for `confidence` shared by all
    windows. The steep part takes in the gaps beside it whose slope exceeds the middle of the two.
    """
    rise, run = y[WINDOW:] - y[:-WINDOW], (z[WINDOW:] - z[:-WINDOW]) * np.log(2)
    slope, error = rise / run, np.hypot(se[WINDOW:], se[:-WINDOW]) / run
    u = float(norm.isf((1 - confidence) / 2 / slope.size))
    top = int((slope - u * error).argmax())
    if top < WINDOW or slope[top] - u * error[top] <= STEEP:
        return None
    flat = int(slope[: top - WINDOW + 1].argmin())
    if slope[top] - slope[flat] <= u * float(np.hypot(error[top], error[flat])):
        return None
    gaps = np.diff(y) / (np.diff(z) * np.log(2))
    steep = gaps > (slope[top] + slope[flat]) / 2
    first, last = top, top + WINDOW
    while first > 0 and steep[first - 1]:
        first -= 1
    while last < z.size - 1 and steep[last]:
        last += 1
    effect = float(y[last] - y[first])
    spread = float(norm.isf((1 - confidence) / 2)) * float(np.hypot(se[last], se[first]))
    return Rise(float(z[first]), float(z[last]), effect, effect - spread, effect + spread)
