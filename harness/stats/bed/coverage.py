"""How often the interval of P99 holds the truth when requests are correlated.

`python -m harness.stats.bed.coverage [REPLICATES]` prints the tables in docs/bench-stats.md.
Requests are an AR(1) Gaussian copula: x = F(z), z_t = phi z_{t-1} + sqrt(1 - phi^2) e_t.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from harness.base.rng import generator
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import n_for_finite, quantile_interval

Array = NDArray[np.float64]
SEED = 20261130
Q = 0.99


def _log_normal(z: Array) -> Array:
    return np.exp(0.6 * z)


def _pareto(z: Array) -> Array:
    out: Array = ndtr(-z) ** (-1 / 2.2)
    return out


def _bimodal(z: Array) -> Array:
    """Log-normal body; the slowest 1.5 % of ranks take six times as long."""
    return np.exp(0.35 * z) * np.where(ndtr(z) > 0.985, 6.0, 1.0)


MARGINALS: dict[str, Callable[[Array], Array]] = {
    "log-normal 0.6": _log_normal,
    "Pareto 2.2": _pareto,
    "two modes": _bimodal,
}


def copula(n: int, phi: float, rng: np.random.Generator) -> Array:
    """N steps of a stationary AR(1) series with unit variance."""
    start = [phi * rng.standard_normal()]
    noise = rng.standard_normal(n)
    series: Array = lfilter([np.sqrt(1 - phi * phi)], [1, -phi], noise, zi=start)[0]
    return series


def measure(
    marginal: str, n: int, phi: float, replicates: int, q: float = Q
) -> tuple[int, int, float]:
    """Intervals that hold the truth, intervals with a finite upper bound, mean of ESS / n."""
    rng = generator(SEED, "coverage", marginal, n, str(phi))
    transform = MARGINALS[marginal]
    truth = float(transform(np.array([ndtri(q)]))[0])
    held = finite = 0
    worth = 0.0
    for _ in range(replicates):
        values = transform(copula(n, phi, rng))
        size = indicator_ess(np.array_split(values, 4), q)
        found = quantile_interval(values, q, n_effective=size.n_effective)
        held += found.low <= truth <= found.high
        finite += bool(np.isfinite(found.high))
        worth += size.n_effective / n
    return held, finite, worth / replicates


def main(replicates: int = 400) -> None:
    """Print both tables."""
    quantiles = (0.5, 0.9, 0.95, 0.99, 0.999)
    print_head("two-sided 95 % of", *(f"P{100 * q:g}" for q in quantiles))
    print_row("independent requests needed", *(n_for_finite(q, 0.95) for q in quantiles))
    print_head("data", "n", "phi", "holds the truth, %", "finite upper bound, %", "mean ESS / n")
    for marginal in MARGINALS:
        for n in (512, 1000, 4000):
            for phi in (0.0, 0.3, 0.6, 0.9):
                held, finite, worth = measure(marginal, n, phi, replicates)
                shares = (share(held, replicates), f"{100 * finite / replicates:.0f}")
                print_row(marginal, n, phi, *shares, f"{worth:.2f}")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
