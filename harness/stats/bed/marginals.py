"""Laws of single latencies, as increasing functions of a normal, and correlated normals.

A law of z has its true quantile at z = ndtri(q). The laws span what servers show:
log-normal bodies, Pareto tails spliced on above P95, slow modes rarer and more frequent than the
slowest 1 %, and rounding.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]
Law = Callable[[Array], Array]


def _log_normal(sigma: float) -> Law:
    return lambda z: np.exp(sigma * z)


def _pareto_tail(alpha: float) -> Law:
    """Log-normal 0.35 up to P95, then x proportional to (share beyond)^(-1 / alpha)."""
    splice = float(ndtri(0.95))

    def law(z: Array) -> Array:
        tail = np.exp(0.35 * splice) * (0.05 / ndtr(-np.maximum(z, splice))) ** (1 / alpha)
        return np.where(z > splice, tail, np.exp(0.35 * z))

    return law


def _slow_mode(rate: float, times: float) -> Law:
    """Log-normal 0.35 of which the slowest `rate` of ranks take `times` as long."""
    return lambda z: np.exp(0.35 * z) * np.where(ndtr(z) > 1 - rate, times, 1.0)


def _rounded(z: Array) -> Array:
    """Log-normal 0.35 in steps of a tenth of its median, as 10 ms in whole ms: many ties."""
    return np.round(10 * np.exp(0.35 * z)) / 10


MARGINALS: dict[str, Law] = {
    "log-normal 0.35": _log_normal(0.35),
    "log-normal 0.6": _log_normal(0.6),
    "log-normal 1": _log_normal(1.0),
    "Pareto 2 tail": _pareto_tail(2.0),
    "Pareto 3 tail": _pareto_tail(3.0),
    "slow 0.5 % x 6": _slow_mode(0.005, 6.0),
    "slow 1.5 % x 6": _slow_mode(0.015, 6.0),
    "slow 3 % x 2": _slow_mode(0.03, 2.0),
    "whole ms": _rounded,
}


def true_quantile(law: Law, q: float) -> float:
    """Quantile of a law that does not decrease in z."""
    return float(law(np.array([ndtri(q)]))[0])


def copula(n: int, phi: float, rng: np.random.Generator) -> Array:
    """N steps of a stationary AR(1) series z_t = phi z_{t-1} + sqrt(1 - phi^2) e_t."""
    start = [phi * rng.standard_normal()]
    noise = rng.standard_normal(n)
    series: Array = lfilter([np.sqrt(1 - phi * phi)], [1, -phi], noise, zi=start)[0]
    return series


@lru_cache(maxsize=64)
def correlation_time(phi: float, q: float) -> float:
    """Autocorrelation time 1 + 2 sum_k r_k of "slower than quantile q", in closed form.

    r_k = (P(Z_0 > c, Z_k > c) - p^2) / (p (1 - p)) with c = ndtri(q), p = 1 - q and Z an AR(1).
    """
    c, p = float(ndtri(q)), 1 - q
    z = np.linspace(c, 12.0, 4001)
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    total, rho = 1.0, phi
    while rho > 1e-6:
        both = np.trapezoid(density * ndtr((rho * z - c) / np.sqrt(1 - rho * rho)), z)
        total += 2 * (float(both) - p * p) / (p * (1 - p))
        rho *= phi
    return total
