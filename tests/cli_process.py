"""The command line as a process of its own, counted where the tests count coverage."""

import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).parents[1]


def command(*arguments: str) -> list[str]:
    """`tailbreak` with these arguments; its own process is measured, those it starts are not."""
    return [sys.executable, *_measured(), "-m", "harness.cli.main", *arguments]


def _measured() -> list[str]:
    if coverage.Coverage.current() is None:
        return []
    return [
        "-m", "coverage", "run", "--parallel-mode", f"--rcfile={ROOT / 'pyproject.toml'}",
        f"--data-file={ROOT / '.coverage'}",
    ]  # fmt: skip
