"""From a prepared run folder to its verdict: the server, the load process, the report."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import typer

from harness.base.errors import ExitCode, MeasurementInvalid, Problem, ScenarioError, SetupError
from harness.cli.verdict import EXIT_OF_STATUS, show_next_step, show_verdict

if TYPE_CHECKING:
    from harness.importers.metrics_source import MetricsSource
    from harness.load.run_metrics import RunMetrics
    from harness.records.lock import RunLock
    from harness.records.run import RunFolder
    from harness.scenario.schema import Scenario
    from harness.server.options import ServerOptions

POLL_S = 0.2
STOP_GRACE_S = 30.0


def server_options(scenario: "Scenario", file: str) -> "ServerOptions":
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
def server(scenario: "Scenario", options: "ServerOptions", metrics: "RunMetrics") -> Iterator[str]:
    """URL of the target; the bundled server lives, and is watched, as long as the block."""
    if scenario.target.url is not None:
        yield scenario.target.url
        return
    from harness.server.process import start_server

    with start_server(options) as server:
        metrics.watch("server", server.pid)
        yield server.url


def drive(
    folder: "RunFolder",
    url: str,
    lock: "RunLock",
    *,
    n_processes: int,
    show: bool,
    metrics: "RunMetrics",
    sources: "Sequence[MetricsSource]",
) -> int:
    """Run the load process to its end, showing how far it is; its exit code.

    Meanwhile the target's metrics and those of the other sources are scraped here. The run's own
    are exported from the first session on, until the caller ends them.
    """
    from harness.cli.scraping import scraping
    from harness.load.runner import start_load

    metrics.start(folder)
    with scraping(folder, url, sources):
        process = start_load(folder, url, lock, n_processes)
        metrics.watch("load", process.pid)
        return _follow(folder, process, metrics, show=show)


def _follow(
    folder: "RunFolder", process: "subprocess.Popen[bytes]", metrics: "RunMetrics", *, show: bool
) -> int:
    from harness.cli.progress import follow

    try:
        with follow(folder) if show else nullcontext(lambda: None) as refresh:
            while process.poll() is None:
                refresh()
                _wait(process, POLL_S)
            refresh()
    except KeyboardInterrupt:
        metrics.hurry()
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


def finish(folder: "RunFolder", code: int) -> None:
    """Report whatever was recorded; then the exit code of the worse of load and verdict."""
    from harness.cli.analyse import analyse
    from harness.load.session import settle
    from harness.records.store import compact, read_rows
    from harness.records.telemetry import compact_telemetry
    from harness.report.html import write_report

    if code == ExitCode.INPUT_OR_SETUP:
        hint = f"\n{_kept(folder)}" if read_rows(folder).table.num_rows else ""
        raise SetupError(f"the load process gave up: {_last_words(folder)}{hint}")
    settle(folder)
    compact_telemetry(folder)
    rows = compact(folder) if is_complete(folder) else read_rows(folder)
    if rows.table.num_rows == 0:
        raise MeasurementInvalid(
            f"no request left a record (load process exit {code}): {_last_words(folder)}\n"
            f"to try again: tailbreak run --resume {folder.path}"
        )
    result = analyse(folder)
    page = write_report(result, folder.path)
    show_verdict(result, page)
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
    if lines and lines[-1] == "KeyboardInterrupt":  # Ctrl-C while it was still being loaded
        return f"interrupted before anything was sent\n(whole log: {log})"
    told = [line for line in lines if "/ERROR/" in line] or lines
    return "\n".join(told[-5:]) + f"\n(whole log: {log})" if lines else f"{log} is empty"


def is_complete(folder: "RunFolder") -> bool:
    """Whether the run says that every request of its plan is recorded."""
    from harness.records.about import read_about

    return bool(read_about(folder)["status"] == "complete")
