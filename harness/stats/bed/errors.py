"""Whether the standard error of a cell's P99 is as wide as the cell's error.

`python -m harness.stats.bed.errors [REPLICATES]` prints the tables in docs/bench-stats.md (4000
replicates unless said). Requests are independent. An error is log of the cell's P99 less log of the
true one; it is held against the order statistic's own standard error and against the one that
`cell_quantiles` gives, which is widened where too few values carry a finite interval.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from harness.base.rng import generator
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.cell_quantile import cell_quantile, cell_quantiles, quantile_log_se

Array = NDArray[np.float64]
SEED = 20261130
Q = 0.99
SIZES = (100, 150, 200, 270, 330, 400, 800)
SLOW_SHARE, SLOW_TIMES, BODY = 0.015, 4.0, 0.35
LAWS = ("log-normal 0.35", "log-normal 0.6", "two modes")
MOVEMENT = (0.0, 0.05, 0.1)


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of many cells in units of a standard error each.

    Attributes:
        own: by the order statistic's own standard error.
        given: by the one of `cell_quantiles`.

    Shapes: own, given (replicates,).
    """

    own: Array
    given: Array


def draw(law: str, n: int, rng: np.random.Generator) -> Array:
    """N requests; with two modes 1.5 % of a log-normal 0.35 take four times as long."""
    if law != "two modes":
        return rng.lognormal(0, float(law.split()[1]), n)
    out: Array = rng.lognormal(0, BODY, n) * np.where(rng.random(n) < SLOW_SHARE, SLOW_TIMES, 1.0)
    return out


def true_log(law: str, q: float = Q) -> float:
    """Log of the law's quantile."""
    if law != "two modes":
        return float(law.split()[1]) * float(ndtri(q))

    def excess(y: float) -> float:
        slow = ndtr((y - np.log(SLOW_TIMES)) / BODY)
        return float((1 - SLOW_SHARE) * ndtr(y / BODY) + SLOW_SHARE * slow - q)

    return float(brentq(excess, -10.0, 10.0))


def measure(law: str, n: int, replicates: int) -> Errors:
    """Errors of cells of n requests in one segment."""
    rng = generator(SEED, "errors", law, n)
    truth = true_log(law)
    own, given = np.empty(replicates), np.empty(replicates)
    for i in range(replicates):
        values = draw(law, n, rng)
        cell = cell_quantile([values], Q)
        off = cell.log_value - truth
        own[i] = off / quantile_log_se(values, Q, cell.n_effective)
        given[i] = off / cell.se
    return Errors(own=own, given=given)


def moving(movement: float, replicates: int, sigma: float = 0.35) -> Array:
    """Errors over standard errors of axes of 8 cells, 4 segments of 128 requests, that move."""
    rng = generator(SEED, "moving", str(movement))
    found = []
    for _ in range(replicates):
        moved = movement * rng.standard_normal((8, 4, 1))
        values = np.exp(moved + sigma * rng.standard_normal((8, 4, 128)))
        cells = cell_quantiles([list(cell) for cell in values], Q)
        found += [(c.log_value - sigma * float(ndtri(Q))) / c.se for c in cells]
    return np.array(found)


def held(scores: Array) -> str:
    """Share of errors within 1.96 standard errors."""
    return share(int((np.abs(scores) <= 1.96).sum()), scores.size)


def main(replicates: int = 4000) -> None:
    """Print both tables."""
    own, given = "own se", "widened se"
    columns = (f"error / {own}", f"error / {given}", f"1.96 {own} hold, %", f"1.96 {given} hold, %")
    print_head("requests", "n", *columns)
    for law in LAWS:
        for n in SIZES:
            e = measure(law, n, replicates)
            spread = (f"{e.own.std():.2f}", f"{e.given.std():.2f}")
            print_row(law, n, *spread, held(e.own), held(e.given))
    print_head("4 x 128 requests, movement of segments", "error / se", "1.96 se hold, %")
    for movement in MOVEMENT:
        scores = moving(movement, replicates // 16)
        print_row(f"{movement:.0%}", f"{scores.std():.2f}", held(scores))


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
