"""A run that Locust is asked to go on with (`--resume`): its next session, or why there is none.

Imports neither Locust nor gevent.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.base.errors import ExitCode, SetupError, TailbreakError
from harness.load.session import Session, recorded, reopen, resume, settle, target_to_resume
from harness.records.lock import RunLock
from harness.records.run import RUNS_DIR, RunFolder


class NothingToResume(TailbreakError):  # noqa: N818  what was asked for is there: no error
    """The run has a record of every request."""

    exit_code = ExitCode.PASS


def resumed_target(options: Any, host: str | None) -> tuple[Session, str]:
    """The run as it was left, and the target of its next session.

    Raises:
        SetupError: other options contradict, or the bundled server is gone.
        RecordError: no run is there.
    """
    path = Path(options.resume)
    _refuse_contradictions(options, path)
    session = reopen(path)
    begun_on = target_to_resume(session.run)
    if begun_on is None:
        raise SetupError(
            f"{path} was begun on the bundled server, which is gone: tailbreak run --resume {path} "
            "starts it again"
        )
    return session, host or begun_on


def resumed_session(options: Any, host: str | None) -> tuple[Session, str]:
    """The run's next session, with nothing sent yet, and where its requests go.

    Raises:
        NothingToResume: every request has its record.
        SetupError: a living process writes into the run, or the target is another one.
        RecordError: the run cannot be read.
    """
    run = RunFolder.open(Path(options.resume))
    lock = RunLock(run)
    try:
        url = _open_session(run, options, host)
    except BaseException:
        lock.release()
        raise
    return replace(reopen(run.path), lock=lock), url


def _open_session(run: RunFolder, options: Any, host: str | None) -> str:
    """Note the start of the next session; where its requests go."""
    session, url = resumed_target(options, host)
    n = session.whole.n_requests
    if len(recorded(run)) == n:
        settle(run)
        raise NothingToResume(
            f"{run.path}: complete, all {n} requests have their record\n"
            f"nothing to resume; its verdict: tailbreak report {run.path}"
        )
    resume(run, url)
    return url


def _refuse_contradictions(options: Any, path: Path) -> None:
    """Half a run of another kind would be no run."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("scenario", "run_folder")
        if getattr(options, name)
    ]
    if Path(options.runs_dir) != RUNS_DIR:
        given.append("--runs-dir")
    if given:
        raise SetupError(
            f"{' and '.join(given)} cannot be given with --resume: {path} holds its own scenario, "
            "plan and seed; leave it out (or unset its TAILBREAK_ variable)"
        )
