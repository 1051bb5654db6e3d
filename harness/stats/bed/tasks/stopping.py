"""What looking often costs: how often an interval is ever wrong, and how many requests it takes.

A stream is looked at 60 times, from 200 requests to 20,000, by three intervals of P99: the one for
one look, on all requests and on their effective number, and the sequence. Who stops does so at the
first look with a half-width of 10 %.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

from harness.stats.bed.marginals import MARGINALS, Array, copula, true_quantile
from harness.stats.bed.task import Case, Task
from harness.stats.confidence_sequence import sequential_interval
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import QuantileInterval, quantile_interval

Q = 0.99
HALF_WIDTH = 0.10
PLANNED = 4000
LOOKS = np.unique(np.geomspace(200, 20_000, 60).astype(int))
RULES = ("one look", "effective number", "sequence")


def replicate(case: Case, rng: np.random.Generator) -> Mapping[str, float]:
    """Each rule on one stream; a rule that never stops has no coverage and no size at the stop."""
    law = MARGINALS[str(case[0])]
    truth = true_quantile(law, Q)
    values = law(copula(int(LOOKS[-1]), float(case[1]), rng))
    looks = [_intervals(values[:n]) for n in LOOKS.tolist()]
    found: dict[str, float] = {}
    for i, rule in enumerate(RULES):
        found |= _judge(rule, [look[i] for look in looks], truth)
    return found


def _intervals(values: Array) -> tuple[QuantileInterval, ...]:
    size = indicator_ess([values], Q).n_effective
    planned = PLANNED * size / values.size
    return (
        quantile_interval(values, Q),
        quantile_interval(values, Q, n_effective=size),
        sequential_interval(values, Q, confidence=0.95, n_effective=size, planned=planned),
    )


def _judge(rule: str, looks: list[QuantileInterval], truth: float) -> dict[str, float]:
    held = [look.low <= truth <= look.high for look in looks]
    found = {f"ever wrong, {rule}": float(not all(held)), f"stopped, {rule}": 0.0}
    for look, holds in zip(looks, held, strict=True):
        if (look.high - look.low) / 2 <= HALF_WIDTH * look.value:
            stop = {f"stopped, {rule}": 1.0, f"right there, {rule}": float(holds)}
            return found | stop | {f"requests, {rule}": float(look.n)}
    return found


TASK = Task(
    name="stopping",
    scores="how often an interval that is looked at 60 times is ever wrong, and what it takes",
    head=("requests", "phi"),
    cases=tuple(product(("log-normal 0.6", "Pareto 3 tail", "slow 1.5 % x 6"), (0.0, 0.6, 0.9))),
    shares=tuple(
        f"{what}, {r}" for what in ("ever wrong", "stopped", "right there") for r in RULES
    ),
    means=tuple(f"requests, {rule}" for rule in RULES),
    replicate=replicate,
    replicates=2000,
    half_width=0.02,
    fast=10,
)
