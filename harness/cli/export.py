"""`tailbreak export`: a run that is over, for Prometheus's backfill."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import RecordError
from harness.cli.result_file import check_whole

if TYPE_CHECKING:
    from harness.export.backfill import PastRun
    from harness.export.openmetrics_file import OpenMetricsFile
    from harness.records.run import RunFolder
    from harness.report.schema import Report


def export(
    run: Annotated[Path, typer.Argument(help="Run folder, such as reports/runs/<id>.")],
    openmetrics: Annotated[
        Path, typer.Option(help="File to write: OpenMetrics text with timestamps.", metavar="FILE")
    ],
) -> None:
    """Write a finished or partial run as OpenMetrics, for Prometheus to take in afterwards.

    The same series as --metrics-port serves while a run goes on, at a fixed step, and at the end
    what the report found: quantiles with intervals, breaks, shares, ratios and the verdict.

    Example: tailbreak export reports/runs/20260101-120000-quickstart --openmetrics run.om

    Example: promtool tsdb create-blocks-from openmetrics run.om DIR, with DIR the folder that
    Prometheus keeps its data in.
    """
    from harness.export.backfill import add_history
    from harness.export.openmetrics_file import OpenMetricsFile
    from harness.records.run import RunFolder

    check_whole("--openmetrics", openmetrics)
    folder = RunFolder.open(run)
    past, report = _read(folder), _report(folder)
    with OpenMetricsFile() as file:
        steps = add_history(past, file)
        _add_findings(past, report, steps.last, file)
        file.write(openmetrics)
    first, last = (f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M:%S}" for each in steps[:2])
    typer.echo(
        f"{openmetrics}: {file.n_points:,} samples from {first} to {last} UTC, "
        f"one step is {steps.width} s\n"
        f"into Prometheus: promtool tsdb create-blocks-from openmetrics {openmetrics} DIR"
    )


def _read(folder: "RunFolder") -> "PastRun":
    from harness.export.backfill import PastRun
    from harness.plan.codec import plan_from_json
    from harness.records.about import read_about
    from harness.records.store import read_rows
    from harness.scenario.read import stored_scenario

    return PastRun(
        scenario=stored_scenario(folder),
        plan=plan_from_json(folder.read_json("plan.json")),
        about=read_about(folder),
        rows=read_rows(folder).table,
    )


def _report(folder: "RunFolder") -> "Report":
    """The run's report: what was written last, or else what its records say now."""
    from pydantic import ValidationError

    from harness.cli.analyse import analyse
    from harness.report.schema import Report

    if not folder.has("report.json"):
        return analyse(folder)
    try:
        return Report.model_validate(folder.read_json("report.json"))
    except ValidationError as error:
        raise RecordError(
            f"{folder.path / 'report.json'}: not a report of this version "
            f"({error.error_count()} problems); write it again: tailbreak report {folder.path}"
        ) from error


def _add_findings(past: "PastRun", report: "Report", at_s: int, file: "OpenMetricsFile") -> None:
    """One sample of each finding, at the run's end."""
    from harness.export import run_gauges
    from harness.export.run_labels import cell_labels, service_labels

    service = service_labels(past.scenario)
    labels = cell_labels(past.scenario, past.plan)
    found = [
        run_gauges.verdict_point(service, report.verdict),
        *run_gauges.cell_points(labels, report.cells),
        *run_gauges.break_points(service, report.breakpoints),
        *run_gauges.ratio_points(service, report.comparison),
        *run_gauges.ratio_points(service, report.baseline),
    ]
    for metric in dict.fromkeys(metric for metric, _ in found):
        file.add(metric, [p._replace(at=at_s) for each, p in found if each is metric])
