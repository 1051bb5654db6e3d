"""Starts a server as a process of its own and stops it again: for `tailbreak run` and for tests.

Imports neither torch nor the server's own modules beyond its options: the caller may be a load
generator, which must stay small. A server whose starter dies notices its closed standard input and
stops by itself.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from harness.base.errors import SetupError
from harness.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 10.0
_SHOWN_LINES: Final = 12


def to_arguments(options: ServerOptions) -> list[str]:
    """Write options as the command line of `tailbreak serve`, leaving defaults out."""
    arguments = []
    defaults = ServerOptions()
    for name in ServerOptions.model_fields:
        value = getattr(options, name)
        if value == getattr(defaults, name) or name == "engine_grace_s":
            continue
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, tuple) else (value,):
            arguments += [option] if each is True else [option, str(each)]
    return arguments


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """A server that answers at `url`; leaving the context stops it."""

    url: str
    pid: int
    process: subprocess.Popen[str]
    errors: IO[str]

    def __enter__(self) -> Self:
        """Use the running server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def stop(self) -> int:
        """End the process, first politely; return its exit status. May be called twice."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        status = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                stream.close()
        return status

    def last_errors(self) -> str:
        """Give the end of what the server wrote to standard error."""
        return _tail(self.errors)


def start_server(options: ServerOptions, *, timeout_s: float = _START_TIMEOUT_S) -> RunningServer:
    """Start `tailbreak serve` and wait until it answers `/healthz`.

    Raises:
        SetupError: It ended, or did not answer in time; the message holds its last lines.
    """
    return start_verb("serve", to_arguments(options), timeout_s=timeout_s)


def start_verb(
    verb: str, arguments: Sequence[str], *, timeout_s: float = _START_TIMEOUT_S
) -> RunningServer:
    """Start a verb of the command line that serves HTTP; wait until it answers `/healthz`.

    Raises:
        SetupError: It ended, or did not answer in time; the message holds its last lines.
    """
    errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  lives as long as the server
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", "harness.cli.main", verb, "--ends-with-stdin", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    deadline = time.monotonic() + timeout_s
    try:
        url = _read_url(process, errors, deadline)
        _wait_healthy(url, process, errors, deadline)
    except BaseException:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, errors):
            if stream is not None:
                stream.close()
        raise
    return RunningServer(url=url, pid=process.pid, process=process, errors=errors)


def _read_url(process: subprocess.Popen[str], errors: IO[str], deadline: float) -> str:
    """Read the line the server prints when it is ready."""
    assert process.stdout is not None
    left_s = max(0.0, deadline - time.monotonic())
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(left_s) else ""
    words = [word for word in line.split() if word.startswith("http://")]
    if not words:
        raise _failure(process, errors)
    return words[0]


def _wait_healthy(
    url: str, process: subprocess.Popen[str], errors: IO[str], deadline: float
) -> None:
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):  # noqa: S310  our own URL
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise _failure(process, errors)


def _failure(process: subprocess.Popen[str], errors: IO[str]) -> SetupError:
    """Say how the server failed, with its last lines."""
    try:
        status = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        what = "did not answer in time"
    else:
        what = f"ended with exit status {status} while starting"
    return SetupError(f"the server {what}. Its last lines:\n{_tail(errors)}")


def _tail(errors: IO[str]) -> str:
    """Read the last lines without disturbing the server, which writes through its own offset."""
    size = os.fstat(errors.fileno()).st_size
    data = os.pread(errors.fileno(), 16384, max(0, size - 16384))
    return "\n".join(data.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:])
