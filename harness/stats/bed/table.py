"""A task's results as a Markdown table and as rows for JSON: shares with Wilson intervals."""

from typing import Any

from harness.stats.bed.results import Results
from harness.stats.bed.score import print_head, print_row, share, wilson
from harness.stats.bed.task import Case, Task


def print_table(task: Task, results: Results) -> None:
    """The table; a column that never came up shows a dash."""
    print_head(*task.head, "replicates", *(f"{name}, %" for name in task.shares), *task.means)
    for case in task.cases:
        n, sums = results.of(task.name, case)
        shares = [share(round(hits), of) for hits, of in (sums.get(c, (0, 0)) for c in task.shares)]
        means = [
            f"{v / of:,.4g}" if of else "-" for v, of in (sums.get(c, (0, 0)) for c in task.means)
        ]
        print_row(*case, n, *shares, *means)


def as_rows(task: Task, results: Results) -> list[dict[str, Any]]:
    """One row a case and column; what never came up is null."""
    return [
        _row(task, case, name, results)
        for case in task.cases
        for name in (*task.shares, *task.means)
    ]


def _row(task: Task, case: Case, name: str, results: Results) -> dict[str, Any]:
    n, sums = results.of(task.name, case)
    value, of = sums.get(name, (0.0, 0))
    low, high = wilson(round(value), of) if of and name in task.shares else (None, None)
    return {
        "task": task.name, **dict(zip(task.head, case, strict=True)), "column": name,
        "replicates": n, "n": of, "value": value / of if of else None, "low": low, "high": high,
    }  # fmt: skip
