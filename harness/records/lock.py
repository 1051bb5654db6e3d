"""Who writes into a run now: one command at a time, and a dead one is no hindrance.

An advisory lock on `run.lock`. The kernel gives it back when the last process that inherited it is
gone, however it ended, so there is no stale lock and no process number to be mistaken. A writer
holds a lock on its shard as well: one that has outlived its master is noticed.
"""

import contextlib
import fcntl
import os
from typing import Self

from harness.base.errors import SetupError
from harness.records.run import RunFolder
from harness.records.shard import SHARD, is_being_written

FILE = "run.lock"


class RunLock:
    """The right to write into a run folder.

    Attributes:
        fd: the descriptor that holds it; a child process that inherits it holds it, too.
    """

    def __init__(self, run: RunFolder) -> None:
        """Take it.

        Raises:
            SetupError: a living process has it, or the folder cannot be written.
        """
        path = run.path / FILE
        try:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SetupError(f"{path}: cannot be opened for writing: {error.strerror}") from error
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = not any(map(is_being_written, run.shards.glob(f"*{SHARD}")))
        except BlockingIOError:
            is_free = False
        except OSError as error:
            raise SetupError(f"{path}: cannot be locked: {error.strerror}") from error
        if not is_free:
            holder = os.pread(self.fd, 20, 0).decode(errors="replace").strip()
            self.release()
            raise SetupError(
                f"{run.path}: this run is still being written (process {holder or 'unknown'}); "
                "wait for it, or stop it first"
            )
        os.truncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it back; safe to call twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def __enter__(self) -> Self:
        """Hold it for a block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Give it back."""
        self.release()
