"""How often a comparison of two runs calls a regression that is none, and how often it sees one.

`python -m harness.stats.bed.ratios [REPLICATES]` prints the table in docs/statistics.md. A run is 8
cells of 4 segments; requests are the correlated ones of `harness.stats.bed.coverage`. Both runs
come from one law, and the candidate's times are then multiplied: by 1 (nothing changed), by 1.1
(the limit, in every cell: the most that is allowed), or in one cell of 8 only (a regression).
`moved` is how much a run moves as a whole, in both runs: the standard deviation of a factor common
to its cells.
"""

import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from harness.base.rng import generator
from harness.stats.bed.coverage import MARGINALS, SEED, copula
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.ratio import quantile_ratios

Array = NDArray[np.float64]
CELLS, SEGMENTS = 8, 4
LIMIT = 1.1
SLOWER = (1.25, 1.5, 2.0)
LAWS: dict[str, Callable[[Array], Array]] = {
    "log-normal 0.1": lambda z: np.exp(0.1 * z),
    **MARGINALS,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two runs of one law.

    Attributes:
        law: of the requests.
        q: quantile that is compared.
        n: requests a cell.
        phi: correlation of neighbouring requests.
        moved: standard deviation of the log factor common to a run.
    """

    law: str
    q: float = 0.99
    n: int = 512
    phi: float = 0.0
    moved: float = 0.0


CASES = (
    *(Case(law=law, n=n, phi=phi) for law in LAWS for n in (512, 2000) for phi in (0.0, 0.6)),
    Case(law="log-normal 0.6", n=128),
    Case(law="log-normal 0.6", n=2000, phi=0.9),
    *(Case(law=law, q=0.5, phi=phi) for law in tuple(LAWS)[:2] for phi in (0.0, 0.6)),
    *(Case(law="log-normal 0.1", q=q, moved=moved) for q in (0.99, 0.5) for moved in (0.05, 0.1)),
)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of the ratios of many pairs of runs in which nothing changed.

    Shapes: low, high (replicates, 8).
    """

    low: Array
    high: Array

    def alarms(self, times: float, limit: float = LIMIT) -> int:
        """Pairs with a regression in some cell, once every cell takes `times` as long."""
        return int((self.low * times > limit).any(axis=1).sum())

    def seen(self, times: float, limit: float = LIMIT) -> int:
        """Pairs in which the first cell is a regression, once it takes `times` as long."""
        return int((self.low[:, 0] * times > limit).sum())

    def passed(self, limit: float = LIMIT) -> int:
        """Pairs in which no cell is in doubt and none a regression."""
        return int((self.high <= limit).all(axis=1).sum())


def measure(case: Case, replicates: int) -> Bounds:
    """Ratios of two runs of the same law."""
    rng = generator(SEED, "ratios", *map(str, astuple(case)))
    low, high = np.empty((replicates, CELLS)), np.empty((replicates, CELLS))
    for i in range(replicates):
        before, after = (_run(case, rng) for _ in range(2))
        found = quantile_ratios(before, after, case.q, 0.95, CELLS)
        low[i], high[i] = [item.low for item in found], [item.high for item in found]
    return Bounds(low=low, high=high)


def _run(case: Case, rng: np.random.Generator) -> list[list[Array]]:
    """One run: cells of segments."""
    level = np.exp(case.moved * rng.standard_normal())
    cells = (level * LAWS[case.law](copula(case.n, case.phi, rng)) for _ in range(CELLS))
    return [np.array_split(cell, SEGMENTS) for cell in cells]


def main(replicates: int = 1000) -> None:
    """Print the table."""
    alarms = ("false alarm, nothing changed, %", f"false alarm, all x {LIMIT:g}, %")
    seen = (f"one cell x {times:g} seen, %" for times in SLOWER)
    print_head("data", "q", "n", "phi", "moved", *alarms, *seen, "pass, nothing changed, %")
    for case in CASES:
        found = measure(case, replicates)
        counts = (found.alarms(1.0), found.alarms(LIMIT), *map(found.seen, SLOWER), found.passed())
        shares = (share(count, replicates) for count in counts)
        print_row(case.law, f"P{100 * case.q:g}", case.n, case.phi, f"{case.moved:.0%}", *shares)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
