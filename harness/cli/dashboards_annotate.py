"""`tailbreak dashboards annotate`: a finished run as marks in a Grafana."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import RecordError
from harness.cli.dashboards_push import connect

if TYPE_CHECKING:
    from harness.export.annotations import Mark


def annotate(
    run: Annotated[Path, typer.Argument(help="Run folder, such as reports/runs/<id>.")],
    url: Annotated[
        str, typer.Option(help="Grafana's root, such as http://127.0.0.1:3000.", metavar="URL")
    ],
) -> None:
    """Mark a run in a Grafana: its time, the segments of its cells, breakpoints and the verdict.

    Each mark carries the tags tailbreak and run:ID, and one of cell:ID, breakpoint, verdict:STATUS.
    What is there already is not posted again. The token comes from GRAFANA_TOKEN.

    Example: tailbreak dashboards annotate reports/runs/20260101-120000-quickstart
    --url http://127.0.0.1:3000
    """
    marks = _marks(run)
    grafana = connect(url)
    there = {
        (each.get("time"), each.get("timeEnd"), each.get("text"))
        for each in grafana.annotations(f"run:{run.resolve().name}")
    }
    new = [m for m in marks if (m.start_ms, m.end_ms, m.text) not in there]
    for each in new:
        grafana.annotate(
            start_ms=each.start_ms, end_ms=each.end_ms, text=each.text, tags=list(each.tags)
        )
    print(f"{run}: {len(new)} marks posted, {len(marks) - len(new)} were there")


def _marks(run: Path) -> "list[Mark]":
    from harness.cli.analyse import analyse, read_evidence
    from harness.export.annotations import marks_of
    from harness.records.run import RunFolder

    folder = RunFolder.open(run)
    evidence, result = read_evidence(folder), analyse(folder)
    marks = marks_of(
        about={**evidence.run, "id": run.resolve().name},
        rows=evidence.rows,
        cells=result.cells,
        breakpoints=result.breakpoints,
        verdict=result.verdict,
    )
    if not marks:
        raise RecordError(f"{run}: no request with a wall-clock time, so nothing can be marked")
    return marks
