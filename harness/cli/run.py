"""`tailbreak run`: server, load, records, report, verdict, in one command; `--resume` goes on."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.errors import ExitCode, SetupError
from harness.cli.drive import drive, finish, is_complete, server, server_options
from harness.cli.fidelity_of_run import compare_answers
from harness.cli.scraping import named_sources
from harness.records.run import RUNS_DIR

if TYPE_CHECKING:
    from harness.load.run_metrics import RunMetrics
    from harness.records.lock import RunLock
    from harness.records.run import RunFolder
    from harness.scenario.schema import Scenario

Driving = Callable[["RunFolder", str, "RunLock"], int]
"""Runs the load process on a folder, against a URL, under a lock; its exit code."""


def run(
    scenario: Annotated[
        Path | None, typer.Argument(help="Scenario file, such as scenarios/quickstart.toml.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="URL of an OpenAI-compatible server. Without it the bundled server is started.",
            metavar="URL",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to ask the target for; without it, and where the scenario names none, the "
            "one that the target lists.",
            metavar="NAME",
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(help="Requests per cell instead of the scenario's.", metavar="N", min=1),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed instead of the scenario's.", metavar="N", min=0)
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Earlier run to compare with: a cell slower than limits.regression allows "
            "makes exit code 4.",
            metavar="RUN",
        ),
    ] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders go.", metavar="DIR")] = RUNS_DIR,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Finish this run, which was killed or stopped: send what it has no record of. "
            "Takes no scenario; of the other options only --target, --processes, --metrics-port, "
            "--scrape and --no-progress.",
            metavar="RUN",
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            help="Load processes, when one is not fast enough (the report says so).",
            metavar="N",
            min=1,
        ),
    ] = 1,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Serve the run's metrics for Prometheus on this port of 127.0.0.1, 0 for a free "
            "one (docs/telemetry.md).",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    scrape: Annotated[
        list[str] | None,
        typer.Option(
            help="Metrics endpoint to sample beside the target's own, such as a GPU exporter's; "
            "may be given several times.",
            metavar="URL",
        ),
    ] = None,
    progress: Annotated[
        bool, typer.Option(help="Progress bar; quiet anyway where no one watches.")
    ] = True,
) -> None:
    """Run a scenario and say where P99 breaks.

    Starts the bundled server unless a target is given, drives it with Locust users, keeps every
    request's record, and writes report.html, report.json and summary.md into the run folder.

    Example: tailbreak run scenarios/quickstart.toml

    Example: tailbreak run scenarios/quickstart.toml --target http://127.0.0.1:8000 --model NAME

    Example: tailbreak run --resume reports/runs/20260101-120000-quickstart
    """
    from harness.cli.topology import keep_topology
    from harness.load.client.models import ask_only_model
    from harness.load.run_metrics import RunMetrics
    from harness.load.session import api_key, check_target, prepare
    from harness.records.about import read_about
    from harness.records.lock import RunLock
    from harness.scenario.baseline import require_baseline
    from harness.scenario.read import read_scenario

    show = progress and sys.stderr.isatty()
    with RunMetrics(metrics_port) as metrics:
        sources = named_sources(scrape or ())
        driving = partial(drive, n_processes=processes, show=show, metrics=metrics, sources=sources)
        if resume is not None:
            fixed = {
                "a scenario": scenario, "--model": model, "--requests": requests, "--seed": seed,
                "--baseline": baseline, "--runs-dir": None if runs_dir == RUNS_DIR else runs_dir,
            }  # fmt: skip
            _refuse(resume, [name for name, value in fixed.items() if value is not None])
            _resume(resume, target, driving, metrics)
            return
        if scenario is None:
            raise typer.BadParameter("give a scenario file, or a run folder with --resume")
        written = read_scenario(scenario)
        if target is not None and model is None and "model" not in written.target.model_fields_set:
            model = ask_only_model(target, api_key(written))
        wanted = _override(
            written, str(scenario), target=target, model=model, n=requests, seed=seed
        )
        options = server_options(wanted, str(scenario))
        against = require_baseline(baseline, wanted)
        with server(wanted, options, metrics) as url:
            check_target(url, api_key(wanted))
            folder = prepare(wanted, url, runs_dir, is_bundled=wanted.target.url is None)
            command = shlex.join(["tailbreak", *sys.argv[1:]])
            told = {**read_about(folder), "command": command, **against}
            folder.write_json("run.json", told)
            keep_topology(folder)
            lock = RunLock(folder)
            compare_answers(folder, wanted, options, show=show)
            code = driving(folder, url, lock)
        with lock:
            code = _further_rounds(folder, wanted, lock, driving, metrics, code)
            metrics.end()
            finish(folder, code)


def _refuse(run: Path, given: list[str]) -> None:
    if given:
        raise SetupError(
            f"{' and '.join(given)} cannot be given with --resume: {run} holds its own scenario, "
            "plan and seed, and half a run of another kind would be no run; leave it out"
        )


def _resume(path: Path, target: str | None, driving: Driving, metrics: "RunMetrics") -> None:
    """Go on with a run where its last session left it."""
    from harness.load import session as sessions
    from harness.records.lock import RunLock
    from harness.records.run import RunFolder

    folder = RunFolder.open(path)
    with RunLock(folder) as lock:
        opened = sessions.reopen(folder.path)
        n, n_done = opened.whole.n_requests, len(sessions.recorded(folder))
        if n_done == n and folder.has("report.json") and is_complete(folder):
            typer.echo(f"{folder.path}: complete, all {n} requests have their record")
            typer.echo(f"nothing to resume; its verdict: tailbreak report {folder.path}")
            return
        typer.echo(f"{folder.path}: {n_done} of {n} requests have their record", err=True)
        code = 0
        if n_done < n:
            code = _go_on(folder, opened.scenario, target, lock, driving, metrics)
        wanted = _resumed_scenario(folder, opened.scenario, target)
        code = _further_rounds(folder, wanted, lock, driving, metrics, code)
        metrics.end()
        finish(folder, code)


def _further_rounds(
    folder: "RunFolder",
    scenario: "Scenario",
    lock: "RunLock",
    driving: Driving,
    metrics: "RunMetrics",
    code: int,
) -> int:
    """Plan and drive rounds until the findings wish for nothing; the last load's exit code.

    Each is a session of its own, on a fresh start of the bundled server.
    """
    from harness.cli.rounds import plan_next_round
    from harness.load import session as sessions

    if not scenario.has_rounds:
        return code
    options = server_options(scenario, str(folder.path / "scenario.json"))
    while code != ExitCode.INPUT_OR_SETUP and is_complete(folder) and plan_next_round(folder):
        with server(scenario, options, metrics) as url:
            sessions.resume(folder, url)
            code = driving(folder, url, lock)
    return code


def _resumed_scenario(folder: "RunFolder", scenario: "Scenario", target: str | None) -> "Scenario":
    """The run's scenario on the target it was begun on, or on the one that takes its place."""
    from harness.load import session as sessions

    begun_on = sessions.target_to_resume(folder)
    if target is not None and begun_on is None:
        raise SetupError(
            f"--target {target}: this run was begun on the bundled server, which --resume starts "
            "again with the same options; leave --target out"
        )
    file = str(folder.path / "scenario.json")
    return _override(scenario, file, target=target or begun_on, model=None, n=None, seed=None)


def _go_on(
    folder: "RunFolder",
    scenario: "Scenario",
    target: str | None,
    lock: "RunLock",
    driving: Driving,
    metrics: "RunMetrics",
) -> int:
    """Another session, on the same kind of target; the load process's exit code."""
    from harness.load import session as sessions

    wanted = _resumed_scenario(folder, scenario, target)
    options = server_options(wanted, str(folder.path / "scenario.json"))
    with server(wanted, options, metrics) as url:
        sessions.check_target(url, sessions.api_key(wanted))
        sessions.resume(folder, url)
        compare_answers(folder, wanted, options, show=False)
        return driving(folder, url, lock)


def _override(
    scenario: "Scenario",
    file: str,
    *,
    target: str | None,
    model: str | None,
    n: int | None,
    seed: int | None,
) -> "Scenario":
    """The scenario with the command line's values, validated again."""
    from harness.scenario.read import validate_scenario

    values: dict[str, Any] = scenario.resolved()
    if target is not None:
        values["target"]["url"] = target
        values["fidelity"] = False  # as [target.server], it is the bundled server's
    if model is not None:
        values["target"]["model"] = model
    if n is not None:
        values["load"]["requests_per_cell"] = n
        values["load"]["segments_per_cell"] = min(n, values["load"]["segments_per_cell"])
    if seed is not None:
        values["seed"] = seed
    return validate_scenario(values, f"{file} with the command line's options")
