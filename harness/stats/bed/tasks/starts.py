"""When to stop where every fresh start of the server settles at a level of its own.

Runs of 1,000 requests, each on a fresh start, are added until a rule stops, at most 16. Beside
`judge_cell` (half-width 10 %, loose agreement, two starts at least) stands the rule to stop when a
t-interval of the runs' own P99, from three runs on, is narrower than 10 % of their mean, as
AIPerf's width rule. The truth is P99 over all starts: log-normal sqrt(0.6^2 + sd^2).
"""

import math
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from scipy.special import ndtri, stdtrit

from harness.stats.bed.marginals import Array
from harness.stats.bed.rows import Bed, draw_rows
from harness.stats.bed.task import Case, Task
from harness.stats.stopping import Agreement, State, judge_cell

Q = 0.99
RUNS, PER_RUN, SEGMENTS = 16, 1000, 4
HALF_WIDTH = 0.10
SIGMA = 0.6
Stop = tuple[int, float, float]


def replicate(case: Case, rng: np.random.Generator) -> Mapping[str, float]:
    """Both rules on the same runs; one that never stops has no coverage and no number of runs."""
    sd, phi = float(case[0]), float(case[1])
    bed = Bed(n_starts=RUNS, n_per_start=PER_RUN, start_sd=sd, phi=phi)
    runs = np.split(draw_rows(bed, rng).latency, RUNS)
    truth = bed.median_s * math.exp(math.hypot(SIGMA, sd) * float(ndtri(Q)))
    found: dict[str, float] = {}
    for rule, stops in (("judge_cell", _judged(runs)), ("t width", _t_width(runs))):
        stop = next(stops, None)
        found[f"stopped, {rule}"] = stop is not None
        if stop is not None:
            found[f"right there, {rule}"] = stop[1] <= truth <= stop[2]
            found[f"runs, {rule}"] = stop[0]
    return found


def _judged(runs: list[Array]) -> Iterator[Stop]:
    for n in range(1, RUNS + 1):
        starts = [np.array_split(run, SEGMENTS) for run in runs[:n]]
        judged = judge_cell(
            starts, Q, half_width=HALF_WIDTH, planned=RUNS * PER_RUN // 2,
            n_left=(RUNS - n) * PER_RUN, agreement=Agreement.LOOSE, least_starts=2,
        )  # fmt: skip
        if judged.state is State.CONVERGED:
            yield n, judged.interval.low, judged.interval.high


def _t_width(runs: list[Array]) -> Iterator[Stop]:
    found = np.array([np.quantile(run, Q) for run in runs])
    for n in range(3, RUNS + 1):
        mean = float(found[:n].mean())
        half = float(stdtrit(n - 1, 0.975) * found[:n].std(ddof=1) / math.sqrt(n))
        if 2 * half < HALF_WIDTH * mean:
            yield n, mean - half, mean + half


RULES = ("judge_cell", "t width")
TASK = Task(
    name="starts",
    scores="whether P99 is right where a rule stops, when starts of the server differ",
    head=("sd of starts", "phi"),
    cases=tuple(product((0.0, 0.03, 0.1), (0.0, 0.6))),
    shares=tuple(f"{what}, {rule}" for what in ("stopped", "right there") for rule in RULES),
    means=tuple(f"runs, {rule}" for rule in RULES),
    replicate=replicate,
    replicates=1000,
    half_width=0.02,
    fast=10,
)
