"""`tailbreak slo`: gate a run by an SLO file, and write its Prometheus rules."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.result_file import check_folder
from harness.cli.verb import add_verb

if TYPE_CHECKING:
    from rich.table import Table

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

    A failed request is a bad one. Kept needs the whole interval of the good share at or above the
    target, missed the whole interval below it.

    Exit codes: 0 all are kept, 3 some is surely missed, 5 none is but some cannot be told.

    Example: tailbreak slo check scenarios/slo/chat.toml reports/runs/20260101-120000-quickstart
    """
    from rich.console import Console

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
    Console().print(_table(judged))
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


def _table(judged: "Sequence[Judged]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("objective", "cell", "factors"):
        table.add_column(column)
    for column in ("promised", "good", "interval", "requests"):
        table.add_column(column, justify="right")
    table.add_column("")
    for each in judged:
        table.add_row(*map(Text, _row(each)))
    return table


def _row(each: "Judged") -> tuple[str, ...]:
    limit = "" if each.limit_s is None else f" in {each.limit_s:g} s"
    factors = " ".join(f"{name}={value}" for name, value in each.factors.items())
    good = each.good
    figures = (
        ("-", "-") if good is None else (f"{good.value:.3%}", f"{good.low:.3%} to {good.high:.3%}")
    )
    word = f"{each.verdict}: {each.reason}" if each.reason else each.verdict
    return (
        each.objective, each.cell, factors, f"{each.target:.6g}{limit}", *figures,
        f"{each.n:,}", word,
    )  # fmt: skip


for _each in (check, rules):
    add_verb(slo, _each)
