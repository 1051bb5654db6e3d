"""One writer's shard: an Arrow stream that only grows, and the log of what it has acknowledged.

A writer collects rows and a native thread appends them, once a second, as one batch of the stream,
so that neither the event loop nor a greenlet ever waits for the disk. Only when the operating
system has taken the whole batch is a line added to the log beside the shard: flushed =
acknowledged, and `kill -9` after that loses nothing of it.
"""

import contextlib
import fcntl
import importlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness.base.errors import RecordError
from harness.records.columns import SCHEMA, to_batch, to_current
from harness.records.request import RequestRecord

FLUSH_PERIOD_S: Final = 1.0
SHARD: Final = ".arrows"
LOG: Final = ".acknowledged"
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""How a stream that was closed ends: continuation and a zero length."""


def _native(module: str, name: str) -> Any:
    """The standard library's own function, even where gevent has replaced it."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(importlib.import_module(module), name)


class ShardWriter:
    """Writes the rows of one process to one shard.

    Thread rule: `append` and `end_segment` from any greenlet or thread; both return at once.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        """Open `folder/writer.arrows` and its log.

        Raises:
            RecordError: the shard exists already or cannot be made.
        """
        self.path = folder / f"{writer}{SHARD}"
        try:
            self._file = self.path.open("xb")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # till it is closed or we die
            self._log = self.path.with_suffix(LOG).open("xb")
        except OSError as error:
            raise RecordError(f"{self.path}: cannot create the shard: {error.strerror}") from error
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._rows: deque[RequestRecord] = deque()
        self._n_rows = 0
        self._failure: str | None = None
        self._sync_wanted = False
        self._closing = False
        allocate_lock: Callable[[], Any] = _native("_thread", "allocate_lock")
        self._wake = allocate_lock()
        self._wake.acquire()
        self._finished = allocate_lock()
        self._finished.acquire()
        _native("_thread", "start_new_thread")(self._run, ())

    def append(self, record: RequestRecord) -> None:
        """Hand over a row; it is on disk within about a second.

        Raises:
            RecordError: an earlier write failed (disk full, folder gone).
        """
        self._require_healthy()
        self._rows.append(record)

    def end_segment(self) -> None:
        """Have everything so far written and synced soon, without waiting for it."""
        self._require_healthy()
        self._sync_wanted = True
        self._signal()

    def close(self) -> None:
        """Write and sync the rest, and wait for it.

        Raises:
            RecordError: rows could not be written; what was flushed before is readable.
        """
        self._closing = True
        self._signal()
        self._finished.acquire()
        self._finished.release()
        self._require_healthy()

    def _signal(self) -> None:
        with contextlib.suppress(RuntimeError):  # already signalled
            self._wake.release()

    def _require_healthy(self) -> None:
        if self._failure is not None:
            raise RecordError(f"{self.path}: writing failed: {self._failure}")

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wake.acquire(True, FLUSH_PERIOD_S)  # noqa: FBT003  a lock's own signature
                self._flush()
            self._flush()
            self._stream.close()
            self._file.flush()
            self._sync()
        except OSError as error:
            self._failure = f"{error}; free some space"
        except Exception as error:  # noqa: BLE001  border: rows must never vanish in silence
            self._failure = repr(error)
        finally:
            for file in (self._file, self._log):
                with contextlib.suppress(OSError):  # tries to write the rest once more
                    file.close()
            self._finished.release()

    def _flush(self) -> None:
        sync, self._sync_wanted = self._sync_wanted, False
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        if rows:
            self._stream.write_batch(to_batch(rows))
            self._file.flush()  # all of it or an error: a bare write may take a part in silence
            self._acknowledge(len(rows))
        if sync:
            self._sync()

    def _acknowledge(self, n_rows: int) -> None:
        self._n_rows += n_rows
        line = f"{self._n_rows} {self._file.tell()} {time.monotonic_ns()}\n"
        self._log.write(line.encode())
        self._log.flush()

    def _sync(self) -> None:
        """Rows before their acknowledgement: a power cut must not leave the word alone."""
        os.fsync(self._file.fileno())
        os.fsync(self._log.fileno())


@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """A writer's word that rows are with the operating system.

    Attributes:
        n_rows: rows of the shard so far.
        n_bytes: length of the shard so far.
        at_ns: when, on the writer's monotonic clock.
    """

    n_rows: int
    n_bytes: int
    at_ns: int


@dataclass(frozen=True, kw_only=True)
class Shard:
    """What a shard holds.

    Attributes:
        name: file name.
        table: the rows of its whole batches, in today's columns.
        is_torn: the writer died before it closed the stream.
        n_lost: rows that were acknowledged and are not there: not a crash of the writer but damage
            to the file or its disk.
    """

    name: str
    table: pa.Table
    is_torn: bool
    n_lost: int


def is_being_written(shard: Path) -> bool:
    """Whether its writer lives and has not closed it."""
    with shard.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_acknowledgements(shard: Path) -> list[Acknowledgement]:
    """The log beside a shard, oldest first; a torn last line was never given.

    Raises:
        RecordError: the log cannot be read, or holds something else.
    """
    path = shard.with_suffix(LOG)
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
        rows = [tuple(map(int, line.split())) for line in lines]
        return [Acknowledgement(n_rows=n, n_bytes=size, at_ns=at) for n, size, at in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: unreadable: {error}") from error


def read_shard(path: Path) -> Shard:
    """The whole batches of a shard.

    Raises:
        RecordError: the file is no shard that this version reads.
    """
    promised = read_acknowledgements(path)  # first: a living writer may add to both
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: unreadable: {error.strerror}") from error
    table, is_whole = _read_stream(data, path)
    n_lost = max(0, promised[-1].n_rows - table.num_rows) if promised else 0
    is_torn = not (is_whole and data.endswith(_END))
    return Shard(name=path.name, table=table, is_torn=is_torn, n_lost=n_lost)


def _read_stream(data: bytes, path: Path) -> tuple[pa.Table, bool]:
    """The rows before the first damage, and whether there was none."""
    try:
        reader = pa.ipc.open_stream(pa.py_buffer(data))
    except (pa.ArrowException, OSError):
        return SCHEMA.empty_table(), False  # killed before the stream's head was whole
    batches: list[pa.RecordBatch] = []
    is_whole = False
    try:
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
    except StopIteration:
        is_whole = True
    except (pa.ArrowException, OSError):
        pass
    try:
        return to_current(pa.Table.from_batches(batches, schema=reader.schema)), is_whole
    except (ValueError, pa.ArrowException) as error:
        raise RecordError(f"{path}: {error}") from error
