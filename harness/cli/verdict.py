"""The verdict on the terminal, and the exit code it stands for."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from harness.base.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from harness.records.run import RunFolder
    from harness.report.schema import Report

EXIT_OF_STATUS: Final[dict[str, ExitCode]] = {
    "pass": ExitCode.PASS,
    "improvement": ExitCode.PASS,
    "requests_failed": ExitCode.REQUESTS_FAILED,
    "slo_missed": ExitCode.SLO_MISSED,
    "regression": ExitCode.REGRESSION,
    "undecided": ExitCode.UNDECIDED,
    "suspect": ExitCode.UNDECIDED,
    "invalid": ExitCode.UNDECIDED,
}


def show_verdict(report: "Report", page: Path) -> None:
    """Print the verdict, the doubts about the run, and where the report is."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    from harness.findings.fidelity import told_answers
    from harness.report.why import why_lines

    console = Console()
    colour = "green" if EXIT_OF_STATUS[report.verdict.status] is ExitCode.PASS else "yellow"
    title = f"{report.run.scenario}: {report.verdict.status}"
    console.print(Panel(Text(report.verdict.text), title=Text(title), border_style=colour))
    _show_ledger(report, console)
    for told in told_answers(report.comparison.answers if report.comparison else ()):
        console.print(Text(f"answers: {told}"))
    _show_slowest(report, console)
    for told in why_lines(report):
        console.print(Text(f"why: {told}"))
    for caveat in report.validity.caveats:
        console.print(Text(f"caveat: {caveat}"))
    inside = page.absolute().is_relative_to(Path.cwd())
    shown = page.absolute().relative_to(Path.cwd()) if inside else page
    console.print(Text(f"report: {shown}"), soft_wrap=True)


def _show_ledger(report: "Report", console: "Console") -> None:
    """What each set of features changes: ratio to the baseline, interval and mark."""
    from rich.table import Table
    from rich.text import Text

    from harness.report.ledger import build_ledger

    ledger = build_ledger(report)
    if ledger is None:
        return
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("ledger", overflow="fold")
    table.add_column("")
    for metric in ledger.metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    for entry in ledger.entries:
        name = f"{entry.label}, {entry.place}" if ledger.has_places else entry.label
        sides = zip(*(line.figures for line in entry.lines), strict=True)
        columns = [[figure.marked if figure else "" for figure in side] for side in sides]
        quantiles = [line.quantile for line in entry.lines]
        indented = Text(("  " if entry.over else "") + name)
        table.add_row(indented, *(Text("\n".join(column)) for column in (quantiles, *columns)))
    console.print(table)
    console.print(
        Text(
            "time over the baseline's: \u25bc faster, \u25b2 slower, = same, ? undecided, "
            "\u2260 other answers"
        )
    )


def _show_slowest(report: "Report", console: "Console") -> None:
    """The slowest cells, the quantile with its interval and unit."""
    from rich.table import Table
    from rich.text import Text

    from harness.report.summary import slowest_cells

    name, rows = slowest_cells(report)
    if not rows:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("slowest cells")
    for column in (name, "requests", "failed"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def show_next_step(report: "Report", run: "RunFolder") -> None:
    """Say how a partial run is finished, with its own folder."""
    if report.run.status == "partial":
        typer.echo(f"the run is partial; to finish it: tailbreak run --resume {run.path}")
