"""Starts the load process: Locust, headless, on a prepared run folder."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import harness
from harness.base.errors import SetupError
from harness.records.lock import RunLock
from harness.records.run import RunFolder

LOG = "load.log"
PARENT_VARIABLE = "TAILBREAK_PARENT"
OPTION_VARIABLES = frozenset(
    {
        "TAILBREAK_BASELINE",
        "TAILBREAK_METRICS_PORT",
        "TAILBREAK_RESUME",
        "TAILBREAK_RUNS_DIR",
        "TAILBREAK_RUN_FOLDER",
        "TAILBREAK_SCENARIO",
    }
)


def start_load(
    run: RunFolder, url: str, lock: RunLock, n_processes: int = 1
) -> "subprocess.Popen[bytes]":
    """Start Locust on this run, alone or as master of several processes.

    Its output goes to `load.log` in the run folder. It inherits the lock, so that the run stays
    locked while either of the two lives.

    Raises:
        SetupError: the process cannot be started.
    """
    command = [
        sys.executable, "-m", "locust", "--locustfile", str(locustfile()), "--headless",
        "--only-summary", "--run-folder", str(run.path.resolve()), "--host", url,
        *_processes(n_processes),
    ]  # fmt: skip
    try:
        with (run.path / LOG).open("ab") as log:
            return subprocess.Popen(  # noqa: S603  our own interpreter and paths
                command,
                cwd=run.path,  # no locust.conf of the current folder takes part
                env={**load_environment(), PARENT_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock.fd,),
            )
    except OSError as error:
        raise SetupError(f"cannot start the load process: {error}") from error


def _processes(n: int) -> list[str]:
    """Locust's options for several processes, which talk over a port of their own."""
    if n == 1:
        return []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    return ["--processes", str(n), "--master-bind-port", port, "--master-port", port]


def locustfile() -> Path:
    """The grid locustfile; an installed package without the folder uses the user classes' file."""
    root = _root()
    path = root / "locustfiles" / "grid.py"
    return path if path.is_file() else root / "harness" / "load" / "users.py"


def load_environment() -> dict[str, str]:
    """Our environment without Locust's own variables, and with this package importable."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LOCUST_") and name not in OPTION_VARIABLES
    }
    paths = [str(_root()), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def _root() -> Path:
    assert harness.__file__ is not None
    return Path(harness.__file__).resolve().parent.parent
