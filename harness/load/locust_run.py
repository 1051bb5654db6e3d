"""What a run needs of Locust's process beside its users: session, events, signals, the end."""

import os
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import gevent
from gevent import get_hub

from harness.base.errors import SetupError, TailbreakError
from harness.load.locust_options import given_path, read_given, target_of
from harness.load.resumed import resumed_session
from harness.load.runner import PARENT_VARIABLE
from harness.load.session import Session, prepare, reopen, set_target
from harness.load.virtual_user import VirtualUser
from harness.plan.rounds import ONE_ROUND
from harness.records.about import read_about
from harness.records.lock import RunLock
from harness.records.request import RequestRecord
from harness.records.run import RunFolder
from harness.scenario.baseline import require_baseline

PARENT_PERIOD_S = 0.5


class RequestFailed(Exception):  # noqa: N818  shown in Locust's failure table
    """A request that did not come whole; few distinct texts, details are in the record."""


class Run(Protocol):
    """A run as this process sees it: alone, as the master of several, or as a worker.

    Attributes:
        path: API path, for Locust's tables.
        is_stopped: Locust is ending it.
        is_closed: nothing is left to write.
    """

    is_stopped: bool
    is_closed: bool

    @property
    def path(self) -> str:
        """Empty before it is known."""
        ...

    def enter(self) -> VirtualUser | None:
        """Work for one more Locust user."""
        ...

    def fail(self, error: Exception) -> None:
        """End it for this reason."""
        ...

    def drain(self) -> None:
        """Wait for what is in flight, then cancel it."""
        ...

    def hurry(self) -> None:
        """Cancel now."""
        ...

    def close(self) -> None:
        """Write what is left to write."""
        ...


def new_session(options: Any, host: str | None) -> tuple[Session, str]:
    """A run folder with nothing sent yet, and where its requests go.

    Raises:
        TailbreakError: what is wrong with the scenario, the target or the folder.
    """
    folder, baseline = given_path(options.run_folder), given_path(options.baseline)
    if baseline is not None and (folder is not None or options.resume):
        raise SetupError(
            f"--baseline belongs to a new run, {folder or options.resume} has its own or none; "
            "leave it out"
        )
    if options.resume:
        return resumed_session(options, host)
    if folder is not None:
        session = reopen(folder) if PARENT_VARIABLE in os.environ else locked(RunFolder(folder))
        _require_unused(session)
        url = host or read_about(session.run)["target"]
        set_target(session.run, url)
        return session, url
    scenario = read_given(options.scenario)
    url = target_of(scenario, options.scenario, host)
    against = require_baseline(baseline, scenario)
    if scenario.has_rounds:
        sys.stderr.write(f"{options.scenario}: {ONE_ROUND}\n")
    run = prepare(scenario, url, Path(options.runs_dir))
    command = shlex.join(["locust", *sys.argv[1:]])
    run.write_json("run.json", {**read_about(run), "command": command, **against})
    return locked(run), url


def locked(run: RunFolder) -> Session:
    """Its session, in a folder that is ours to write; `tailbreak run` has locked its own.

    Raises:
        SetupError: a living process writes into it.
    """
    return replace(reopen(run.path), lock=RunLock(run))


def _require_unused(session: Session) -> None:
    """A session runs once."""
    if read_about(session.run)["status"] != "running":
        raise SetupError(
            f"{session.run.path} was run already; start Locust again with --scenario for another"
        )


def fire_request(environment: Any, record: RequestRecord, n_bytes: int) -> None:
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


def finish(run: Run) -> None:
    """Drain and close; a second Ctrl-C cancels what is in flight at once."""
    while not run.is_closed:
        try:
            run.drain()
            run.close()
        except KeyboardInterrupt:
            run.hurry()


def catch_interrupts() -> None:
    """Have Ctrl-C reach the main greenlet through the loop, never a greenlet in its middle."""
    hub = get_hub()
    gevent.signal_handler(
        signal.SIGINT, hub.handle_system_error, KeyboardInterrupt, KeyboardInterrupt()
    )


def watch_parent(environment: Any, parent: int) -> None:
    """End the run when the process that started it is gone: nobody would stop the load."""
    while os.getppid() == parent:
        gevent.sleep(PARENT_PERIOD_S)
    run: Run | None = environment.tailbreak
    if run is not None:
        run.fail(SetupError("the process that started this run is gone"))
        finish(run)
    environment.runner.quit()


def leave(error: TailbreakError) -> NoReturn:
    """End before anything was sent."""
    sys.stderr.write(f"{error}\n")
    raise SystemExit(int(error.exit_code))
