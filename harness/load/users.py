"""Locust user classes, and the wiring of a run into Locust's events.

The only module of the package that imports Locust, which patches the standard library on import.
Locust lends greenlets, the command line and the web page; our own records are the truth.
"""

import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import gevent
from locust import User, events, task
from locust.exception import StopUser
from locust.runners import STATE_RUNNING, MasterRunner, WorkerRunner

from harness.base.errors import ExitCode, SetupError, TailbreakError
from harness.load.engine import LoadEngine
from harness.load.locust_options import add_options, given_path, require_free_web_port
from harness.load.runner import PARENT_VARIABLE
from harness.load.session import Session, prepare, reopen, set_target
from harness.load.verdict import FinalReport
from harness.records.request import RequestRecord
from harness.scenario.read import read_scenario

REGISTRATION_LIMIT_S = 30.0
PARENT_PERIOD_S = 0.5


class RequestFailed(Exception):  # noqa: N818  shown in Locust's failure table
    """A request that did not come whole; few distinct texts, details are in the record."""


class TailbreakUser(User):  # type: ignore[misc]  # locust is not typed here
    """A user that works through the run's plan; subclasses choose nothing but their name."""

    abstract = True

    @task  # type: ignore[untyped-decorator]  # locust is not typed here
    def work(self) -> None:
        """Send until the plan is over, then leave."""
        engine: LoadEngine = self.environment.tailbreak
        engine.new_user().run()
        raise StopUser


class GridUser(TailbreakUser):
    """Works through a scenario's grid."""

    abstract = False


def _fire_request(environment: Any, record: RequestRecord, n_bytes: int) -> None:
    """Locust's one event for this request."""
    end_ns = record.done_ns or record.sent_ns or record.intended_ns
    environment.events.request.fire(
        request_type="POST",
        name=f"{environment.tailbreak.path} [{record.cell}]",
        response_time=(end_ns - record.intended_ns) / 1e6,
        response_length=n_bytes,
        exception=None if record.outcome.is_ok else RequestFailed(_failure_name(record)),
        context={
            "cell": record.cell,
            "segment": record.segment,
            "index": record.index,
            "is_warmup": record.is_warmup,
            "outcome": record.outcome.value,
            "ttft_ms": _ttft_ms(record),
            "n_output_tokens": record.n_output_tokens,
        },
    )


def _failure_name(record: RequestRecord) -> str:
    status = record.http_status
    return record.outcome.value if status in {None, 200} else f"{record.outcome.value} {status}"


def _ttft_ms(record: RequestRecord) -> float | None:
    if record.first_token_ns is None:
        return None
    return (record.first_token_ns - record.intended_ns) / 1e6


def _on_parser(parser: Any, **_kwargs: Any) -> None:
    add_options(parser)


def _on_init(environment: Any, runner: Any, **_kwargs: Any) -> None:
    try:
        _require_single_process(runner)
        options = environment.parsed_options
        require_free_web_port(options)
        session = _session(options, environment.host)
        environment.host = session.run.read_json("run.json")["target"]
        engine = LoadEngine(session, environment.host, partial(_fire_request, environment))
    except TailbreakError as error:
        _leave(error)
    environment.tailbreak = engine
    _set_user_count(options, engine.n_users)
    parent = os.environ.get(PARENT_VARIABLE)
    environment.tailbreak_report = FinalReport(session.run) if parent is None else None
    environment.events.quit.add_listener(partial(_tell_verdict, environment))
    if parent is not None:
        gevent.spawn(_watch_parent, engine, int(parent))


def _watch_parent(engine: LoadEngine, parent: int) -> None:
    """End the run when the process that started it is gone: nobody would stop the load."""
    while os.getppid() == parent:
        gevent.sleep(PARENT_PERIOD_S)
    engine.fail(SetupError("the process that started this run is gone"))


def _require_single_process(runner: Any) -> None:
    if isinstance(runner, (MasterRunner, WorkerRunner)):
        raise SetupError(
            "runs over several processes (--processes, --master, --worker) are not in this "
            "version; start Locust without them"
        )


def _session(options: Any, host: str | None) -> Session:
    folder = given_path(options.run_folder)
    if folder is not None:
        session = reopen(folder)
        if host:
            set_target(session.run, host)
        return session
    file = given_path(options.scenario)
    if file is None:
        raise SetupError("no scenario: give --scenario scenarios/quickstart.toml")
    scenario = read_scenario(file)
    url = host or scenario.target.url
    if not url:
        raise SetupError(
            f"{file} names no target.url: give --host http://127.0.0.1:8000, "
            "or `tailbreak run`, which starts the bundled server"
        )
    run = prepare(scenario, url, Path(options.runs_dir))
    command = shlex.join(["locust", *sys.argv[1:]])
    run.write_json("run.json", {**run.read_json("run.json"), "command": command})
    return reopen(run.path)


def _set_user_count(options: Any, n_users: int) -> None:
    """The scenario decides how many users there are, whatever -u and -r say."""
    if options.num_users not in {None, n_users}:
        sys.stderr.write(
            f"-u {options.num_users} is not used: the scenario needs {n_users} users\n"
        )
    options.num_users = n_users
    options.spawn_rate = n_users


def _leave(error: TailbreakError) -> NoReturn:
    sys.stderr.write(f"{error}\n")
    raise SystemExit(int(error.exit_code))


def _on_test_start(environment: Any, **_kwargs: Any) -> None:
    gevent.spawn(_run_plan, environment)


def _run_plan(environment: Any) -> None:
    """Run the plan once all users are there, then end the test."""
    engine: LoadEngine = environment.tailbreak
    _wait_for_users(engine, environment.runner)
    engine.run()
    if engine.is_stopping and not engine.is_failed:
        return  # whoever stopped it ends the test
    engine.close()
    if environment.parsed_options.headless:
        environment.runner.quit()
    else:
        environment.runner.stop()


def _wait_for_users(engine: LoadEngine, runner: Any) -> None:
    """Until every user that was spawned has reported for work."""
    until_ns = time.monotonic_ns() + int(REGISTRATION_LIMIT_S * 1e9)
    while time.monotonic_ns() < until_ns:
        n_expected = min(engine.n_users, runner.user_count)
        if runner.state == STATE_RUNNING and engine.n_registered >= n_expected:
            return
        gevent.sleep(0.01)


def _on_stopping(environment: Any, **_kwargs: Any) -> None:
    """Before Locust kills its users: let what is in flight finish, or be recorded as cancelled."""
    _finish(environment)


def _on_test_stop(environment: Any, **_kwargs: Any) -> None:
    """A run that the web page started is over: make its report; the page goes on being served."""
    if not environment.parsed_options.headless and _has_verdict(environment):
        gevent.spawn(environment.tailbreak_report.tell)


def _on_quitting(environment: Any, **_kwargs: Any) -> None:
    engine = _finish(environment)
    if engine is None:
        return
    sys.stderr.write(f"{engine.summary}\n")
    environment.process_exit_code = int(engine.exit_code)
    if engine.is_begun and engine.exit_code == ExitCode.INPUT_OR_SETUP:
        sys.stderr.write(f"what was recorded is kept: tailbreak report {engine.run_path}\n")
    if _has_verdict(environment):
        environment.process_exit_code = environment.tailbreak_report.verdict().exit_code


def _tell_verdict(environment: Any, **_kwargs: Any) -> None:
    """Below Locust's own tables."""
    if _has_verdict(environment):
        environment.tailbreak_report.tell()


def _has_verdict(environment: Any) -> bool:
    """Whether this process, and not `tailbreak run`, reports a run that has something to report."""
    engine: LoadEngine | None = getattr(environment, "tailbreak", None)
    if engine is None or environment.tailbreak_report is None:
        return False
    return engine.is_begun and engine.exit_code != ExitCode.INPUT_OR_SETUP


def _finish(environment: Any) -> LoadEngine | None:
    engine: LoadEngine | None = getattr(environment, "tailbreak", None)
    if engine is not None and not engine.is_closed:
        engine.drain()
        engine.close()
    return engine


events.init_command_line_parser.add_listener(_on_parser)
events.init.add_listener(_on_init)
events.test_start.add_listener(_on_test_start)
events.test_stopping.add_listener(_on_stopping)
events.test_stop.add_listener(_on_test_stop)
events.quitting.add_listener(_on_quitting)
