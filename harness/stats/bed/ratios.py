"""How often a comparison of two runs calls a regression that is none, and how often it sees one.

`python -m harness.stats.bed.ratios [REPLICATES]` prints the table in docs/bench-stats.md. A run is
8 cells of 4 segments; requests are the correlated ones of `harness.stats.bed.marginals`. Both runs
come from one law, and the candidate's times are then multiplied: by 1 (nothing changed), by 1.1
(the limit, in every cell: the most that is allowed), or in one cell of 8 only (a regression).
`moved` is how much a run moves as a whole, in both runs: the standard deviation of a factor common
to its cells.
"""

import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
from scipy.special import ndtr

from harness.base.rng import generator
from harness.stats.bed.marginals import MARGINALS, Array, copula
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.bed.task import SEED
from harness.stats.ratio import quantile_ratios

CELLS, SEGMENTS = 8, 4
LIMIT = 1.1
SLOWER = (1.25, 1.5, 2.0)
LAWS: dict[str, Callable[[Array], Array]] = {
    "log-normal 0.1": lambda z: np.exp(0.1 * z),
    "log-normal 0.6": MARGINALS["log-normal 0.6"],
    "Pareto 2.2": lambda z: ndtr(-z) ** (-1 / 2.2),
    "two modes": MARGINALS["slow 1.5 % x 6"],
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

    Attributes:
        low: lower bounds.
        high: upper bounds.
        stated: the largest ratio, over the cells, that the pair says it would have seen.

    Shapes: low, high (replicates, 8); stated (replicates,).
    """

    low: Array
    high: Array
    stated: Array

    def alarms(self, times: float, limit: float = LIMIT) -> int:
        """Pairs with a regression in some cell, once every cell takes `times` as long."""
        return int((self.low * times > limit).any(axis=1).sum())

    def seen(self, times: float | Array, limit: float = LIMIT) -> int:
        """Pairs in which the first cell is a regression, once it takes `times` as long."""
        return int((self.low[:, 0] * times > limit).sum())

    def seen_as_stated(self) -> int:
        """Pairs in which the first cell is a regression of the size that another pair states."""
        return self.seen(np.roll(self.stated, 1))

    def passed(self, limit: float = LIMIT) -> int:
        """Pairs in which no cell is in doubt and none a regression."""
        return int((self.high <= limit).all(axis=1).sum())


def measure(case: Case, replicates: int) -> Bounds:
    """Ratios of two runs of the same law."""
    rng = generator(SEED, "ratios", *map(str, astuple(case)))
    low, high = np.empty((replicates, CELLS)), np.empty((replicates, CELLS))
    stated = np.empty(replicates)
    for i in range(replicates):
        before, after = (_run(case, rng) for _ in range(2))
        found = quantile_ratios(before, after, case.q, 0.95, CELLS)
        low[i], high[i] = [item.low for item in found], [item.high for item in found]
        stated[i] = max(item.detectable(LIMIT) for item in found)
    return Bounds(low=low, high=high, stated=stated)


def _run(case: Case, rng: np.random.Generator) -> list[list[Array]]:
    """One run: cells of segments."""
    level = np.exp(case.moved * rng.standard_normal())
    cells = (level * LAWS[case.law](copula(case.n, case.phi, rng)) for _ in range(CELLS))
    return [np.array_split(cell, SEGMENTS) for cell in cells]


def main(replicates: int = 1000) -> None:
    """Print the table."""
    print_head(
        "data", "q", "n", "phi", "moved", "false alarm, nothing changed, %",
        f"false alarm, all x {LIMIT:g}, %", *(f"one cell x {times:g} seen, %" for times in SLOWER),
        "median size stated", "one cell by the size stated seen, %", "pass, nothing changed, %",
    )  # fmt: skip
    for case in CASES:
        _print(case, measure(case, replicates))


def _print(case: Case, found: Bounds) -> None:
    """One row of the table."""
    n = len(found.stated)
    before = (found.alarms(1.0), found.alarms(LIMIT), *map(found.seen, SLOWER))
    print_row(
        case.law, f"P{100 * case.q:g}", case.n, case.phi, f"{case.moved:.0%}",
        *(share(count, n) for count in before), f"x {np.median(found.stated):.3g}",
        *(share(count, n) for count in (found.seen_as_stated(), found.passed())),
    )  # fmt: skip


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
