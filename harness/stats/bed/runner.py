"""Runs tasks of the bed until their shares are known well enough or their time is used.

The case with the fewest replicates is next, so a run cut short has a whole table.
"""

from collections.abc import Callable

from harness.stats.bed.results import Results
from harness.stats.bed.task import Case, Task, is_known, score

BATCH = 10


def run_task(
    task: Task,
    results: Results,
    *,
    is_over: Callable[[], bool],
    is_fast: bool = False,
    tell: Callable[[int, int], None] = lambda _done, _wanted: None,
) -> None:
    """Add replicates to `results`; `tell` hears of cases known and cases in all."""
    while open_cases := [
        case for case in task.cases if not _has_enough(task, case, results, is_fast=is_fast)
    ]:
        tell(len(task.cases) - len(open_cases), len(task.cases))
        case = min(open_cases, key=lambda c: results.of(task.name, c)[0])
        if is_over() and results.of(task.name, case)[0]:
            return
        n = results.of(task.name, case)[0]
        batch = range(n, min(n + BATCH, task.fast if is_fast else task.replicates))
        results.append(task.name, case, batch, score(task, case, batch))
    tell(len(task.cases), len(task.cases))


def _has_enough(task: Task, case: Case, results: Results, *, is_fast: bool) -> bool:
    n, sums = results.of(task.name, case)
    return n >= task.fast if is_fast else is_known(task, sums, n)
