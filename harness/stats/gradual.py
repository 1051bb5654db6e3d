"""A rise that grows steeper than proportional without breaking: its extent and size."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from harness.stats.smooth import Array

STEEP = 1.1
POINTS = 201


@dataclass(frozen=True)
class Rise:
    """A bend from a flat to a steep part of the curve.

    Attributes:
        low: where the slope has made 10 % of its change, log2 x.
        middle: where it has made half.
        high: where it has made 90 %.
        effect: rise of the curve from low to high, log units.
        effect_low: lower end of its interval.
        effect_high: upper end.
    """

    low: float
    middle: float
    high: float
    effect: float
    effect_low: float
    effect_high: float


def steep_rise(y: Array, z: Array, se: Array, confidence: float) -> Rise | None:
    """The bend into a slope clearly above proportional, or None.

    A cubic in log x (a parabola on fewer than seven cells) is fitted by weighted least squares. Its
    slope d log y / d log x between the second and the last but one cell must somewhere exceed 1.1
    (a curve of slope 1 is proportional to x) and exceed the least slope before it, both by more
    than their error at `confidence`. The bend reaches from 10 % to 90 % of that change of slope.
    """
    degree = 3 if z.size >= 7 else 2
    scale = z[-1] - z[0]
    powers = np.arange(degree + 1)
    design = ((z - z[0]) / scale)[:, None] ** powers / se[:, None]
    covariance = np.linalg.pinv(design.T @ design)
    weights = covariance @ design.T @ (y / se)
    at = np.linspace(z[1], z[-2], POINTS)
    t = (at - z[0]) / scale
    slopes = powers * t[:, None] ** np.maximum(powers - 1, 0) / (scale * np.log(2))
    slope = slopes @ weights
    top = int(slope.argmax())
    bottom = int(slope[: top + 1].argmin())
    z_score = float(norm.ppf((1 + confidence) / 2))
    change = slopes[top] - slopes[bottom]

    def error(row: Array) -> float:
        return z_score * float(np.sqrt(row @ covariance @ row))

    if slope[top] - error(slopes[top]) <= STEEP or change @ weights - error(change) <= 0:
        return None
    part = (slope[bottom : top + 1] - slope[bottom]) / (slope[top] - slope[bottom])
    low, middle, high = (at[bottom + int(np.argmax(part >= p))] for p in (0.1, 0.5, 0.9))
    ends = (np.array([low, high]) - z[0]) / scale
    rise = ends[1] ** powers - ends[0] ** powers
    effect, spread = float(rise @ weights), error(rise)
    return Rise(float(low), float(middle), float(high), effect, effect - spread, effect + spread)
