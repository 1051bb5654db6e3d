"""`tailbreak doctor`: what this machine offers to measuring, and what each lack costs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import ExitCode
from harness.records.run import RUNS_DIR

if TYPE_CHECKING:
    from harness.cli.check import Check


def doctor(
    runs_dir: Annotated[
        Path, typer.Option(help="Where run folders will go.", metavar="DIR")
    ] = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="The checks as one JSON object.")] = False,
) -> None:
    """Look at this machine: clocks, cores, limits, disk, GPU, optional programs.

    Each line is ok or lacking; a lack says what it costs and what to do. Takes about two seconds.

    Exit codes: 0, or 2 where something makes measuring impossible.

    Example: tailbreak doctor
    """
    from harness.cli.check_clock import check_clock
    from harness.cli.check_machine import check_machine
    from harness.cli.check_software import check_software

    checks = [*check_clock(), *check_machine(), *check_software(runs_dir)]
    if as_json:
        value = {"schema": 1, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(value, indent=1))
    else:
        _show(checks)
    if any(check.state == "impossible" for check in checks):
        raise typer.Exit(int(ExitCode.INPUT_OR_SETUP))


COLOURS = {"ok": "green", "lacking": "yellow", "impossible": "red"}


def _show(checks: "list[Check]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in ("check", "", "found"):
        table.add_column(column)
    for check in checks:
        told = Text(check.found)
        if check.state != "ok":
            told.append(f"\ncosts: {check.costs}\ndo: {check.do}", style="dim")
        table.add_row(check.name, Text(check.state, style=COLOURS[check.state]), told)
    console = Console()
    console.print(table)
    n = sum(check.state != "ok" for check in checks)
    console.print(f"{len(checks) - n} of {len(checks)} ok")
