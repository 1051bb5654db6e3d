"""`python -m harness.stats.bed [TASK...] [--minutes N] [--fast] [--json FILE] [--keep FILE]`.

Runs the tasks, each within its share of the time, and prints their tables. What is done is kept, so
a run that was killed goes on where it was when it is started again.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from harness.stats.bed.results import Results, fingerprint
from harness.stats.bed.runner import run_task
from harness.stats.bed.table import as_rows, print_table
from harness.stats.bed.task import Task
from harness.stats.bed.tasks import TASKS

KEEP = Path(".bench-stats.jsonl")


def main(arguments: list[str]) -> int:
    """Run, then print."""
    asked = _parser().parse_args(arguments)
    tasks = [TASKS[name] for name in asked.task or TASKS]
    results = Results(asked.keep, fingerprint())
    _run(tasks, results, 60 * asked.minutes, is_fast=asked.fast)
    for task in tasks:
        sys.stdout.write(f"\n**{task.name}**: {task.scores}.\n")
        print_table(task, results)
    if asked.json:
        rows = [row for task in tasks for row in as_rows(task, results)]
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def _run(tasks: list[Task], results: Results, seconds: float, *, is_fast: bool) -> None:
    """Tasks in turn; time that one leaves goes to the next."""
    end = time.monotonic() + seconds
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        for i, task in enumerate(tasks):
            stop = time.monotonic() + (end - time.monotonic()) / (len(tasks) - i)
            line = bar.add_task(task.name, total=len(task.cases))

            def tell(done: int, wanted: int, line: object = line) -> None:
                bar.update(line, completed=done, total=wanted)  # type: ignore[arg-type]

            def is_over(stop: float = stop) -> bool:
                return time.monotonic() > stop

            run_task(task, results, is_over=is_over, is_fast=is_fast, tell=tell)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.stats.bed",
        description="Scores of the estimators on planted truths, as Markdown tables.",
        epilog="example: python -m harness.stats.bed intervals --minutes 10",
    )
    parser.add_argument("task", nargs="*", type=_name, help=f"of {', '.join(TASKS)}; all if none")
    parser.add_argument("--minutes", type=_minutes, default=90.0, help="at most (default 90)")
    parser.add_argument("--fast", action="store_true", help="a few replicates of each case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures as JSON too")
    parser.add_argument("--keep", type=Path, default=KEEP, metavar="FILE", help=f"default {KEEP}")
    return parser


def _name(text: str) -> str:
    if text not in TASKS:
        raise argparse.ArgumentTypeError(f"got {text}, allowed {', '.join(TASKS)}")
    return text


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"got {text}, allowed above 0 and below 1,000,000")
    return value


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}; name another file\n")
        sys.exit(2)
