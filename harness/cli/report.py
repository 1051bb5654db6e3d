"""`tailbreak report`: analyse a run again and rewrite its report."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.verdict import EXIT_OF_STATUS, show_next_step, show_verdict


def report(
    run: Annotated[Path, typer.Argument(help="Run folder, such as reports/runs/<id>.")],
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Earlier run to compare with, instead of the one that the run was started "
            "against.",
            metavar="RUN",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print report.json instead of the verdict.")
    ] = False,
) -> None:
    """Analyse a finished or interrupted run and write report.html, report.json and summary.md.

    Needs no server. The exit code is the verdict's, as after `tailbreak run`.

    Example: tailbreak report reports/runs/20260101-120000-quickstart
    """
    from harness.cli.analyse import analyse
    from harness.records.run import RunFolder
    from harness.report.html import write_report

    folder = RunFolder.open(run)
    result = analyse(folder, baseline)
    page = write_report(result, folder.path)
    if as_json:
        typer.echo(result.model_dump_json(by_alias=True, indent=1))
    else:
        show_verdict(result, page)
        show_next_step(result, folder)
    raise typer.Exit(int(EXIT_OF_STATUS[result.verdict.status]))
