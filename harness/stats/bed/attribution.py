"""How often the component that slowed down is named, and how often its share's interval holds.

`python -m harness.stats.bed.attribution [REPLICATES]` prints the table in docs/bench-stats.md (1000
replicates unless said). A request is the sum of independent exponential components; in the cell
above the break one or two of them take longer by 40 +- 8 (30 +- 6 each where there are two).
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.base.rng import generator
from harness.stats.attribution import Attribution, attribute_break
from harness.stats.bed.score import print_head, print_row, share

Array = NDArray[np.float64]
SEED = 20261130
Q = 0.99
PLAIN = (2.0, 5.0, 4.0, 1.0, 3.0)
DECOY = (2.0, 20.0, 4.0, 1.0, 3.0)
LARGE = 400_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """Mean time of each component, and which of them take longer above the break, by how much."""

    name: str
    means: tuple[float, ...]
    slower: tuple[int, ...]
    by: float


CASES = (
    Case(name="one component 40 slower", means=PLAIN, slower=(0,), by=40),
    Case(name="the same beside a decoy of mean 20", means=DECOY, slower=(0,), by=40),
    Case(name="two components 30 slower each", means=PLAIN, slower=(0, 4), by=30),
    Case(name="nothing slower", means=PLAIN, slower=(), by=0),
)


@dataclass
class Tally:
    """Outcomes of one case."""

    n: int = 0
    first: int = 0
    named: int = 0
    wrong: int = 0
    held: int = 0


def requests(case: Case, n: int, rng: np.random.Generator, *, above: bool) -> Array:
    """Component times of n requests, (n, components)."""
    parts = np.column_stack([rng.exponential(mean, n) for mean in case.means])
    for slow in case.slower if above else ():
        parts[:, slow] += case.by * (1 + 0.2 * rng.standard_normal(n))
    return parts


def attributed(case: Case, n: int, rng: np.random.Generator, n_bootstrap: int) -> Attribution:
    """One simulated break of n requests a cell."""
    below, above = requests(case, n, rng, above=False), requests(case, n, rng, above=True)
    totals = below.sum(axis=1), above.sum(axis=1)
    return attribute_break(below, totals[0], above, totals[1], Q, rng=rng, n_bootstrap=n_bootstrap)


def measure(case: Case, n: int, replicates: int) -> Tally:
    """Outcomes; the true share is that of a very large cell. With two slower no name is right."""
    rng = generator(SEED, "attribution", case.name, n)
    truth = attributed(case, LARGE, rng, 2).share
    culprit = case.slower[0] if len(case.slower) == 1 else None
    tally = Tally()
    for _ in range(replicates):
        found = attributed(case, n, rng, 499)
        tally.n += 1
        tally.first += found.order[0] in case.slower
        tally.named += culprit is not None and found.culprit == culprit
        tally.wrong += found.culprit is not None and found.culprit != culprit
        if case.slower:
            slow = case.slower[0]
            tally.held += bool(found.low[slow] <= truth[slow] <= found.high[slow])
    return tally


def main(replicates: int = 1000) -> None:
    """Print the table."""
    outcomes = ("ranked first, %", "named, %", "wrong, or one of two, named, %")
    columns = (*outcomes, "interval of a share holds, %")
    print_head("above the break", "requests a cell", *columns)
    for case in CASES:
        for n in (512, 1000):
            t = measure(case, n, replicates)
            wrong = share(t.wrong, t.n)
            first, holds = (share(t.first, t.n), share(t.held, t.n)) if case.slower else ("-", "-")
            named = share(t.named, t.n) if len(case.slower) == 1 else "-"
            print_row(case.name, n, first, named, wrong, holds)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
