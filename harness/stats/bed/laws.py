"""Smooth cost curves without a break, as functions of u = x / x_min on an axis of seven octaves."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OCTAVES = 7
TOP = 2.0**OCTAVES


def grid(n: int, x_min: float = 256.0) -> Array:
    """N cells spaced evenly in log x over seven octaves."""
    out: Array = x_min * np.geomspace(1.0, TOP, n)
    return out


LAWS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: 1 + 0.3 * u,
    "quadratic": lambda u: 1 + 0.02 * u + 0.05 * u**2,
    "power 1.15": lambda u: u**1.15,
    "logarithm": lambda u: 1 + np.log(u),
    "a+bL+cL^2": lambda u: 1 + 0.1 * u + 0.001 * u**2,
    "saturating": lambda u: 1 + 4 * (1 - np.exp(-u / 20)),
    "USL": lambda u: 1 + 0.1 * (u - 1) + 0.001 * u * (u - 1),
    "queue": lambda u: 1 + 2 * (u / 160) / (1 - u / 160),
}
"""Laws the families were chosen with."""

FURTHER_LAWS: dict[str, Callable[[Array], Array]] = {
    "power 1.5": lambda u: 1 + 0.05 * u**1.5,
    "exponential": lambda u: np.exp(u / 40),
    "roofline": lambda u: np.hypot(1, u / 12),
    "many servers": lambda u: 1 + (u / 150) ** 4 / (1 - u / 150),
    "levels off": lambda u: 1 + 9 / (1 + (12 / u) ** 1.5),
}
"""Laws not looked at while the families were chosen."""


def _base(u: Array) -> Array:
    """Proportional to the 0.3rd power, on the log scale."""
    out: Array = 0.3 * np.log(u)
    return out


def _cell(u: Array) -> Array:
    """Position of each cell on the axis, 0 to 1."""
    out: Array = np.log2(u) / OCTAVES
    return out


STRUCTURES: dict[str, Callable[[Array], Array]] = {
    "3 steps of 35 %": lambda u: _base(u) + 0.3 * np.floor(4 * _cell(u) - 1e-9),
    "chunks of 16 u": lambda u: np.log(1 + np.ceil(u / 16)),
    "jumps of 100 % and 65 %": lambda u: (
        _base(u) + 0.7 * (_cell(u) > 0.35) + 0.5 * (_cell(u) > 0.68)
    ),
    "one cell +50 %": lambda u: _base(u) + 0.4 * (np.arange(u.size) == u.size // 2),
    "last cell +120 %": lambda u: _base(u) + 0.8 * (np.arange(u.size) == u.size - 1),
    "soft step over 1 octave": lambda u: _base(u) + 1.2 / (1 + np.exp(-(np.log2(u) - 3.5) / 0.25)),
}
"""Log curves that are neither smooth nor one break."""
