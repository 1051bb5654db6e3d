"""A run's exporter: its port taken before anything else begins, its process beside the load.

Exporting lies above this layer, so it is started by its module's name (`harness.export.serve`). It
ends by itself when whoever started it is gone. Shared by `tailbreak run` and Locust; imports
neither Locust nor gevent.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from harness.base.errors import SetupError
from harness.load.runner import load_environment
from harness.records.run import RunFolder

LOG: Final = "exporter.log"
HOST: Final = "127.0.0.1"
START_LIMIT_S: Final = 60.0
SOON_S: Final = 1.0
"""A wait that is shorter is not worth a word."""


class RunMetrics:
    """The exporter of one run, or of none where no port was asked for: then nothing happens.

    Attributes:
        url: where it is scraped; None without.
    """

    def __init__(self, port: int | None) -> None:
        """Listen at this port of the loopback address, 0 for a free one.

        Raises:
            SetupError: it cannot be had.
        """
        self._listener = None if port is None else _listen(port)
        port = self._listener.getsockname()[1] if self._listener else None
        self.url = None if port is None else f"http://{HOST}:{port}/metrics"
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: list[tuple[str, int]] = []
        self._is_hurried = False

    def watch(self, name: str, pid: int) -> None:
        """Expose this process and what it starts, from the exporter's start on."""
        self._watched.append((name, pid))
        self._tell(name, pid)

    def start(self, run: RunFolder) -> None:
        """Serve what this run writes, and say where; returns when it can be scraped.

        Its start must not disturb what is measured. Nothing where it serves already: a run may
        have several sessions.

        Raises:
            SetupError: the process cannot be started.
        """
        if self._listener is None or self._process is not None:
            return
        with self._listener as listener:
            self._process = _start(run, listener)
        _await_ready(self._process, run)
        sys.stderr.write(f"metrics: {self.url}\n")
        for name, pid in self._watched:
            self._tell(name, pid)

    def end(self) -> None:
        """The load is over; safe to call twice."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def hurry(self) -> None:
        """Ctrl-C was pressed: nobody waits for the last scrapes."""
        self._is_hurried = True

    def wait(self) -> None:
        """Wait until the last values were taken; Ctrl-C waits no longer."""
        if self._process is None:
            return
        self.end()
        try:
            if not self._has_ended_soon(self._process):
                sys.stderr.write("metrics: waiting for the last scrapes; Ctrl-C ends it\n")
            status = self._process.wait()
        except KeyboardInterrupt:
            self.kill()
            return
        if status != 0:
            sys.stderr.write(f"metrics: their exporter died ({status}); see the run's {LOG}\n")

    def kill(self) -> None:
        """End it now."""
        self.end()
        if self._listener is not None:
            self._listener.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        """Export while the block runs."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait until the last values were taken, but not after Ctrl-C."""
        if isinstance(error, KeyboardInterrupt) or self._is_hurried:
            self.kill()
        else:
            self.wait()

    @staticmethod
    def _has_ended_soon(process: "subprocess.Popen[bytes]") -> bool:
        try:
            process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _tell(self, name: str, pid: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it died: the run goes on without
                self._process.stdin.write(f"{name} {pid}\n".encode())
                self._process.stdin.flush()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise SetupError(
            f"--metrics-port {port}: {HOST}:{port} cannot be listened at: {reason}; allowed are "
            "free ports from 1 to 65535, and 0 for whichever is free"
        ) from error


def _start(run: RunFolder, listener: socket.socket) -> "subprocess.Popen[bytes]":
    fd = listener.fileno()
    try:
        with (run.path / LOG).open("ab") as log:
            return subprocess.Popen(  # noqa: S603  our own module
                [sys.executable, "-m", "harness.export.serve", str(run.path.resolve()), str(fd)],
                env=load_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(fd,),
            )
    except OSError as error:
        raise SetupError(f"cannot start the exporter: {error}") from error


def _await_ready(process: "subprocess.Popen[bytes]", run: RunFolder) -> None:
    """Wait for its word, or for its end."""
    assert process.stdout is not None
    with process.stdout as words:
        ready, _, _ = select.select([words], [], [], START_LIMIT_S)
        if ready and words.readline():
            return
    process.kill()
    process.wait()
    raise SetupError(f"the exporter did not start; see {run.path / LOG}")
