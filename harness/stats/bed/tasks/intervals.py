"""How often an interval of P99 holds the truth, beside what others make of the same requests."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from harness.stats.bed.marginals import MARGINALS, copula, correlation_time, true_quantile
from harness.stats.bed.peers import PEERS
from harness.stats.bed.task import Case, Task
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import quantile_interval

Q = 0.99
SEGMENTS = 4


def replicate(case: Case, rng: np.random.Generator) -> Mapping[str, float]:
    """Coverage of each interval, and our width over that of one told the true correlation."""
    marginal, phi, n = str(case[0]), float(case[1]), int(case[2])
    law = MARGINALS[marginal]
    truth = true_quantile(law, Q)
    values = law(copula(n, phi, rng))
    size = indicator_ess(np.array_split(values, SEGMENTS), Q).n_effective
    ours = quantile_interval(values, Q, n_effective=size)
    told = quantile_interval(values, Q, n_effective=n / correlation_time(phi, Q))
    found: dict[str, float] = {
        "tailbreak": ours.low <= truth <= ours.high,
        "finite": bool(np.isfinite(ours.high)),
    }
    for name, peer in PEERS.items():
        low, high = peer(values, Q, rng)
        found[name] = low <= truth <= high
    if np.isfinite(ours.high) and np.isfinite(told.high) and told.high > told.low:
        found["width / oracle's"] = (ours.high - ours.low) / (told.high - told.low)
    return found


TASK = Task(
    name="intervals",
    scores="how often the 95 % interval of P99 holds the truth where requests are correlated",
    head=("requests", "phi", "n"),
    cases=tuple(product(MARGINALS, (0.0, 0.3, 0.6, 0.9), (1000, 4000, 16_000))),
    shares=("tailbreak", "finite", *PEERS),
    means=("width / oracle's",),
    replicate=replicate,
    replicates=1000,
    half_width=0.015,
    fast=10,
)
