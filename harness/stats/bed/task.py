"""What a task of the bed is: cases, what scores a replicate of one, and how many are wanted.

A score is a sum over replicates by column, so ranges add up in any order and a task can be stopped
and continued. Each replicate draws from a stream of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.base.rng import generator
from harness.stats.bed.score import wilson

SEED = 20261130
Case = tuple[str | int | float, ...]
Sums = dict[str, tuple[float, int]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One table of scores.

    Attributes:
        scores: what is scored, in one sentence.
        head: names of the parts of a case.
        cases: the rows.
        shares: columns that count hits; they carry Wilson intervals.
        means: columns that average a number.
        replicate: scores one replicate; a column it leaves out did not come up in it.
        replicates: at most so many a case.
        half_width: enough where each share's Wilson interval is no wider than twice this.
        fast: so many replicates a case for a quick look.
    """

    name: str
    scores: str
    head: tuple[str, ...]
    cases: tuple[Case, ...]
    shares: tuple[str, ...]
    means: tuple[str, ...]
    replicate: Callable[[Case, np.random.Generator], Mapping[str, float]]
    replicates: int
    half_width: float
    fast: int


def score(task: Task, case: Case, replicates: range) -> Sums:
    """Sums and counts of each column over those replicates."""
    found = []
    for i in replicates:
        rng = generator(SEED, "bed", task.name, *map(str, case), i)
        found.append({name: (float(v), 1) for name, v in task.replicate(case, rng).items()})
    return add(found)


def add(parts: Iterable[Sums]) -> Sums:
    """Sums of sums."""
    total: Sums = {}
    for part in parts:
        for name, (value, n) in part.items():
            before, times = total.get(name, (0.0, 0))
            total[name] = (before + value, times + n)
    return total


def is_known(task: Task, sums: Sums, replicates: int) -> bool:
    """Whether a case has enough replicates; a share that never came up is not waited for."""
    if replicates >= task.replicates:
        return True
    if not replicates:
        return False
    spans = [wilson(round(sums[name][0]), sums[name][1]) for name in task.shares if name in sums]
    return all(high - low <= 2 * task.half_width for low, high in spans)
