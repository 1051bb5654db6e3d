"""Append-only shards of request rows: what was flushed survives `kill -9`.

A writer collects rows and a native thread appends them, once a second, as one batch of an Arrow
stream (flushed = acknowledged), so that neither the event loop nor a greenlet ever waits for the
disk. `read_table` drops a torn last batch and says so. `compact` turns the shards into one Parquet
file when the run ends.
"""

import contextlib
import importlib
import os
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.base.errors import RecordError
from harness.records.columns import SCHEMA, SCHEMA_VERSION, to_batch
from harness.records.request import RequestRecord
from harness.records.run import RunFolder

FLUSH_PERIOD_S = 1.0
PARQUET = "requests.parquet"


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
        """Open `folder/writer.arrows`.

        Raises:
            RecordError: the shard exists already or cannot be made.
        """
        self.path = folder / f"{writer}.arrows"
        try:
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise RecordError(f"{self.path}: cannot create the shard: {error.strerror}") from error
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        self._rows: deque[RequestRecord] = deque()
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
            raise RecordError(f"{self.path}: writing failed: {self._failure}; free some space")

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wake.acquire(True, FLUSH_PERIOD_S)  # noqa: FBT003  a lock's own signature
                self._flush()
            self._flush()
            self._stream.close()
            os.fsync(self._file.fileno())
        except (OSError, pa.ArrowException) as error:
            self._failure = str(error)
        finally:
            self._file.close()
            self._finished.release()

    def _flush(self) -> None:
        sync, self._sync_wanted = self._sync_wanted, False
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        if rows:
            self._stream.write_batch(to_batch(rows))
        if sync:
            os.fsync(self._file.fileno())


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows of a run.

    Attributes:
        table: every complete row.
        torn: shards whose last batch was cut, by file name.
    """

    table: pa.Table
    torn: tuple[str, ...]


def read_rows(run: RunFolder) -> StoredRows:
    """Every acknowledged row of a run, from Parquet or, before compaction, from its shards.

    Raises:
        RecordError: no rows, another schema, or a damaged file.
    """
    parquet = run.path / PARQUET
    if parquet.is_file():
        return StoredRows(table=_read_parquet(parquet), torn=())
    batches: list[pa.RecordBatch] = []
    torn = []
    for path in sorted(run.shards.glob("*.arrows")):
        found, is_torn = read_shard(path)
        batches += found
        if is_torn:
            torn.append(path.name)
    return StoredRows(table=pa.Table.from_batches(batches, schema=SCHEMA), torn=tuple(torn))


def compact(run: RunFolder) -> StoredRows:
    """Turn the shards into one Parquet file; safe to repeat after a crash.

    Raises:
        RecordError: the rows cannot be read or the file not be written.
    """
    rows = read_rows(run)
    parquet = run.path / PARQUET
    if not parquet.is_file():
        part = run.path / f".{PARQUET}.part"
        try:
            pq.write_table(rows.table, part, compression="zstd")
            part.replace(parquet)
        except OSError as error:
            raise RecordError(f"{parquet}: cannot be written: {error}; free some space") from error
    for path in run.shards.glob("*.arrows"):
        path.unlink()
    return rows


def read_shard(path: Path) -> tuple[list[pa.RecordBatch], bool]:
    """The complete batches of a shard, and whether its tail is torn.

    Raises:
        RecordError: the file is no shard of this schema.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: unreadable: {error.strerror}") from error
    try:
        reader = pa.ipc.open_stream(pa.py_buffer(data))
    except (pa.ArrowException, OSError):
        return [], True  # killed before the stream's head was whole
    _require_schema(path, reader.schema)
    batches: list[pa.RecordBatch] = []
    while True:
        try:
            batch = reader.read_next_batch()
            batch.validate(full=True)
        except StopIteration:
            return batches, not _ends_properly(data)
        except (pa.ArrowException, OSError):
            return batches, True
        batches.append(batch)


def _ends_properly(data: bytes) -> bool:
    """Whether the stream carries its end marker: continuation and a zero length."""
    return data.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise RecordError(f"{path}: unreadable Parquet: {error}") from error
    _require_schema(path, table.schema)
    return table


def _require_schema(path: Path, schema: pa.Schema) -> None:
    found = (schema.metadata or {}).get(b"tailbreak.schema", b"none").decode(errors="replace")
    if found != str(SCHEMA_VERSION):
        raise RecordError(f"{path}: got record schema {found}, this version reads {SCHEMA_VERSION}")
