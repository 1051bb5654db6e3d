"""What looking often costs: how often an interval is ever wrong, and how many requests it takes.

`python -m harness.stats.bed.stopping [REPLICATES]` prints the table in docs/bench-stats.md (200
streams a row unless said). A stream of correlated requests (`harness.stats.bed.coverage`) is looked
at from 200 requests to 20,000 in steps of 15 %, by three intervals of P99: the one for one look, on
all requests and on their effective number, and the sequence. Who stops does so at the first look
with a half-width of 10 %.
"""

import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from harness.base.rng import generator
from harness.stats.bed.coverage import MARGINALS, SEED, Array, copula
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.confidence_sequence import sequential_interval
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import QuantileInterval, quantile_interval

Q = 0.99
HALF_WIDTH = 0.10
PLANNED = 4000
LOOKS = np.unique(np.geomspace(200, 20_000, 34).astype(int))
RULES = ("one look", "one look, effective number", "sequence")


@dataclass
class Stopped:
    """What one rule came to over all streams.

    Attributes:
        ever_wrong: streams of which some look's interval missed the truth.
        held: streams whose interval held it where the rule stopped.
        sizes: requests at the stop; streams that never stop are left out.
    """

    ever_wrong: int
    held: int
    sizes: list[int]


def measure(marginal: str, phi: float, replicates: int) -> dict[str, Stopped]:
    """Each rule on the same streams."""
    rng = generator(SEED, "stopping", marginal, str(phi))
    transform = MARGINALS[marginal]
    truth = float(transform(np.array([ndtri(Q)]))[0])
    found = {rule: Stopped(0, 0, []) for rule in RULES}
    for _ in range(replicates):
        values = transform(copula(int(LOOKS[-1]), phi, rng))
        looks = [_intervals(values[:n]) for n in LOOKS.tolist()]
        for i, rule in enumerate(RULES):
            _count(found[rule], [look[i] for look in looks], truth)
    return found


def _intervals(values: Array) -> tuple[QuantileInterval, ...]:
    size = indicator_ess([values], Q).n_effective
    planned = PLANNED * size / values.size
    return (
        quantile_interval(values, Q),
        quantile_interval(values, Q, n_effective=size),
        sequential_interval(values, Q, confidence=0.95, n_effective=size, planned=planned),
    )


def _count(found: Stopped, looks: list[QuantileInterval], truth: float) -> None:
    held = [look.low <= truth <= look.high for look in looks]
    found.ever_wrong += not all(held)
    for look, holds in zip(looks, held, strict=True):
        if (look.high - look.low) / 2 <= HALF_WIDTH * look.value:
            found.held += holds
            found.sizes.append(look.n)
            return


def main(replicates: int = 200) -> None:
    """Print the table."""
    print_head("data", "phi", "interval", "ever wrong, %", "stopped", "right there, %", "requests")
    for marginal in MARGINALS:
        for phi in (0.0, 0.6, 0.9):
            for rule, found in measure(marginal, phi, replicates).items():
                n = len(found.sizes)
                size = f"{np.mean(found.sizes):,.0f}" if n else "-"
                print_row(
                    marginal, phi, rule, share(found.ever_wrong, replicates), n,
                    share(found.held, n), size,
                )  # fmt: skip


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
