"""`tailbreak run`: server, load, records, report, verdict, in one command; `--resume` goes on."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.errors import ExitCode, MeasurementInvalid, Problem, ScenarioError, SetupError
from harness.cli.verdict import EXIT_OF_STATUS, show_next_step, show_verdict

if TYPE_CHECKING:
    from harness.records.lock import RunLock
    from harness.records.run import RunFolder
    from harness.scenario.schema import Scenario
    from harness.server.options import ServerOptions

RUNS_DIR = Path("reports/runs")
POLL_S = 0.2
STOP_GRACE_S = 30.0
EMPTY_SHARD = 10_000
"""Bytes; the head of a shard without rows is smaller."""


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
            "Takes no scenario; of the other options only --target and --no-progress.",
            metavar="RUN",
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
    from harness.load.client.models import ask_only_model
    from harness.load.session import api_key, check_target, prepare
    from harness.records.lock import RunLock
    from harness.scenario.baseline import require_baseline
    from harness.scenario.read import read_scenario

    show = progress and sys.stderr.isatty()
    if resume is not None:
        fixed = {
            "a scenario": scenario, "--model": model, "--requests": requests, "--seed": seed,
            "--baseline": baseline, "--runs-dir": None if runs_dir == RUNS_DIR else runs_dir,
        }  # fmt: skip
        _refuse(resume, [name for name, value in fixed.items() if value is not None])
        _resume(resume, target, show=show)
        return
    if scenario is None:
        raise typer.BadParameter("give a scenario file, or a run folder with --resume")
    written = read_scenario(scenario)
    if target is not None and model is None and "model" not in written.target.model_fields_set:
        model = ask_only_model(target, api_key(written))
    wanted = _override(written, str(scenario), target=target, model=model, n=requests, seed=seed)
    options = _server_options(wanted, str(scenario))
    against = require_baseline(baseline, wanted)
    with _server(wanted, options) as url:
        check_target(url, api_key(wanted))
        folder = prepare(wanted, url, runs_dir, is_bundled=wanted.target.url is None)
        command = shlex.join(["tailbreak", *sys.argv[1:]])
        told = {**folder.read_json("run.json"), "command": command, **against}
        folder.write_json("run.json", told)
        with RunLock(folder) as lock:
            code = _drive(folder, url, lock, show=show)
            _finish(folder, code)


def _refuse(run: Path, given: list[str]) -> None:
    if given:
        raise SetupError(
            f"{' and '.join(given)} cannot be given with --resume: {run} holds its own scenario, "
            "plan and seed, and half a run of another kind would be no run; leave it out"
        )


def _resume(path: Path, target: str | None, *, show: bool) -> None:
    """Go on with a run where its last session left it."""
    from harness.load import session as sessions
    from harness.records.lock import RunLock
    from harness.records.run import RunFolder

    folder = RunFolder.open(path)
    with RunLock(folder) as lock:
        opened = sessions.reopen(folder.path)
        n, n_done = opened.whole.n_requests, len(sessions.recorded(folder))
        if n_done == n and folder.has("report.json") and _is_complete(folder):
            typer.echo(f"{folder.path}: complete, all {n} requests have their record")
            typer.echo(f"nothing to resume; its verdict: tailbreak report {folder.path}")
            return
        typer.echo(f"{folder.path}: {n_done} of {n} requests have their record", err=True)
        _finish(
            folder, _go_on(folder, opened.scenario, target, lock, show=show) if n_done < n else 0
        )


def _go_on(
    folder: "RunFolder", scenario: "Scenario", target: str | None, lock: "RunLock", *, show: bool
) -> int:
    """Another session, on the same kind of target; the load process's exit code."""
    from harness.load import session as sessions

    file = str(folder.path / "scenario.json")
    begun_on = sessions.target_to_resume(folder)
    if target is not None and begun_on is None:
        raise SetupError(
            f"--target {target}: this run was begun on the bundled server, which --resume starts "
            "again with the same options; leave --target out"
        )
    url = target or begun_on
    wanted = _override(scenario, file, target=url, model=None, n=None, seed=None)
    with _server(wanted, _server_options(wanted, file)) as url:
        sessions.check_target(url, sessions.api_key(wanted))
        sessions.resume(folder, url)
        return _drive(folder, url, lock, show=show)


def _is_complete(folder: "RunFolder") -> bool:
    return bool(folder.read_json("run.json")["status"] == "complete")


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
    if model is not None:
        values["target"]["model"] = model
    if n is not None:
        values["load"]["requests_per_cell"] = n
        values["load"]["segments_per_cell"] = min(n, values["load"]["segments_per_cell"])
    if seed is not None:
        values["seed"] = seed
    return validate_scenario(values, f"{file} with the command line's options")


def _server_options(scenario: "Scenario", file: str) -> "ServerOptions":
    """What the bundled server is started with, if it is."""
    from pydantic import ValidationError

    from harness.server.options import ServerOptions

    wanted = scenario.target.server.model_dump(exclude_none=True)
    try:
        return ServerOptions(port=0, model=scenario.target.model, **wanted)
    except ValidationError as error:
        problems = [
            Problem(
                where=f"target.server.{each['loc'][0]}",
                got="",
                allowed=str(each.get("ctx", {}).get("error", each["msg"])),
            )
            for each in error.errors()
        ]
        raise ScenarioError(file, problems) from error


@contextmanager
def _server(scenario: "Scenario", options: "ServerOptions") -> Iterator[str]:
    """URL of the target; the bundled server lives as long as the block."""
    if scenario.target.url is not None:
        yield scenario.target.url
        return
    from harness.server.process import start_server

    with start_server(options) as server:
        yield server.url


def _drive(folder: "RunFolder", url: str, lock: "RunLock", *, show: bool) -> int:
    """Run the load process to its end, showing how far it is; its exit code."""
    from harness.cli.progress import follow
    from harness.load.runner import start_load

    process = start_load(folder, url, lock)
    try:
        with follow(folder) if show else nullcontext(lambda: None) as refresh:
            while process.poll() is None:
                refresh()
                _wait(process, POLL_S)
            refresh()
    except KeyboardInterrupt:
        try:
            process.terminate()
            if not _wait(process, STOP_GRACE_S):
                process.kill()
            process.wait()
        except KeyboardInterrupt as again:
            process.kill()
            raise SetupError(f"interrupted; {_kept(folder)}") from again
    return process.returncode


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _finish(folder: "RunFolder", code: int) -> None:
    """Report whatever was recorded; then the exit code of the worse of load and verdict."""
    from harness.cli.analyse import analyse
    from harness.load.session import settle
    from harness.records.store import compact, read_rows
    from harness.report.html import write_report

    if code == ExitCode.INPUT_OR_SETUP:
        kept = any(path.stat().st_size > EMPTY_SHARD for path in folder.shards.glob("*.arrows"))
        hint = f"\n{_kept(folder)}" if kept else ""
        raise SetupError(f"the load process gave up: {_last_words(folder)}{hint}")
    settle(folder)
    rows = compact(folder) if _is_complete(folder) else read_rows(folder)
    if rows.table.num_rows == 0:
        raise MeasurementInvalid(
            f"no request left a record (load process exit {code}): {_last_words(folder)}\n"
            f"to try again: tailbreak run --resume {folder.path}"
        )
    result = analyse(folder)
    page = write_report(result, folder.path)
    show_verdict(result, Path(os.path.relpath(page)))
    show_next_step(result, folder)
    raise typer.Exit(int(EXIT_OF_STATUS[result.verdict.status]))


def _kept(folder: "RunFolder") -> str:
    return (
        f"what was recorded is kept: tailbreak report {folder.path} shows it, "
        f"tailbreak run --resume {folder.path} goes on"
    )


def _last_words(folder: "RunFolder") -> str:
    """The end of the load process's log."""
    log = folder.path / "load.log"
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return f"it left no log in {folder.path}"
    told = [line for line in lines if "/ERROR/" in line] or lines
    return "\n".join(told[-5:]) + f"\n(whole log: {log})" if lines else f"{log} is empty"
