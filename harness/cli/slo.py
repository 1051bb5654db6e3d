"""`tailbreak slo`: gate a run by an SLO file, and write its Prometheus rules."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.result_file import check_folder
from harness.cli.verb import add_verb

if TYPE_CHECKING:
    from harness.findings.slo import Judged

slo = typer.Typer(
    name="slo",
    help="What a service promises: gate runs by it, and alert on it.",
    epilog="Example: tailbreak slo check scenarios/slo/chat.toml reports/runs/RUN",
    no_args_is_help=True,
)
SloFile = Annotated[Path, typer.Argument(help="SLO file, such as scenarios/slo/chat.toml.")]


def check(
    file: SloFile,
    run: Annotated[Path, typer.Argument(help="Run folder, such as reports/runs/<id>.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here.", metavar="FILE")
    ] = None,
) -> None:
    """Say for each objective and cell of a run whether it is kept, missed or undecided.

    Availability is judged over the whole run, latencies in every cell. A failed request is a bad
    one. Kept needs the whole interval of the good share at or above the target, missed the whole
    interval below it.

    Exit codes: 0 all are kept, 3 some is surely missed, 5 none is but some cannot be told.

    Example: tailbreak slo check scenarios/slo/chat.toml reports/runs/20260101-120000-quickstart
    """
    from harness.cli.analyse import judge_cells
    from harness.findings.slo import exit_code, judge_objectives
    from harness.records.run import RunFolder
    from harness.scenario.slo import read_slo

    check_folder("--json", json_file)
    promised = read_slo(file)
    evidence, _, cells = judge_cells(RunFolder.open(run))
    judged = judge_objectives(promised, evidence, cells)
    if json_file is not None:
        rows = [each.model_dump(mode="json") for each in judged]
        json_file.write_text(
            json.dumps({"service": promised.service, "run": str(run), "objectives": rows}, indent=1)
        )
    _show(judged)
    code = exit_code(judged)
    typer.echo({0: "kept", 3: "missed", 5: "undecided"}[int(code)])
    raise typer.Exit(int(code))


def rules(
    file: SloFile,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write instead of standard output.", metavar="FILE"),
    ] = None,
) -> None:
    """Write recording rules and burn-rate alerts for Prometheus.

    Two alerts an objective: a page where the error budget of the window would be gone in about two
    to five days, a ticket where it would not last the window. Each looks at a long and a short
    window, so that it neither fires on a blip nor stays on after the end.

    Example: tailbreak slo rules scenarios/slo/chat.toml --out dashboards/rules/slo.yml
    """
    from harness.export.slo_rules import render_rules, told_edges
    from harness.scenario.slo import read_slo

    check_folder("--out", out)
    promised = read_slo(file)
    text = render_rules(promised)
    for told in told_edges(promised):
        typer.echo(told, err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")


def _show(judged: "Sequence[Judged]") -> None:
    """One row an objective, every place where it is missed, and what cannot be told."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("objective", "promised"):
        table.add_column(column)
    for column in ("kept", "missed", "undecided"):
        table.add_column(column, justify="right")
    for name in dict.fromkeys(each.objective for each in judged):
        part = [each for each in judged if each.objective == name]
        counts = [str(sum(e.verdict == v for e in part)) for v in ("kept", "missed", "undecided")]
        table.add_row(Text(name), Text(_promise(part[0])), *counts)
    console.print(table)
    for each in judged:
        if each.verdict == "missed":
            console.print(Text(_told(each)))
    for told in _undecided(judged):
        console.print(Text(told))


def _undecided(judged: "Sequence[Judged]") -> Iterator[str]:
    """A line an objective: one place with its figures, many by their number and the first."""
    from harness.findings.quantity import many

    for name in dict.fromkeys(each.objective for each in judged):
        places = [e for e in judged if (e.objective, e.verdict) == (name, "undecided")]
        if places:
            n = len(places) - 1
            yield _told(places[0]) + (
                f"; and in {many(n, 'cell')} more (--json has each)" if n else ""
            )


def _promise(each: "Judged") -> str:
    limit = "answered" if each.limit_s is None else f"{each.metric} within {each.limit_s:g} s"
    return f"{each.target * 100:.6g} % {limit}"


def _told(each: "Judged") -> str:
    """One place where an objective is not kept, with its figures."""
    place = " ".join([each.cell or "whole run", *(f"{k}={v}" for k, v in each.factors.items())])
    good = each.good
    figures = (
        ""
        if good is None
        else f": {good.value:.2%} good ({good.low:.2%} to {good.high:.2%}) of {each.n:,}"
    )
    return f"{each.verdict} {each.objective}, {place}{figures}{each.reason and f'; {each.reason}'}"


for _each in (check, rules):
    add_verb(slo, _each)
