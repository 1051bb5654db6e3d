"""Follows one shard while it grows: every acknowledged batch, once, as soon as it is there.

Reads only what the log beside the shard says is whole, so a batch half written is never seen. Both
files stay open: a folder that is deleted, or a run that is compacted, is read to its end. What a
whole run holds is `store.py`.
"""

from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from harness.base.errors import RecordError
from harness.records.columns import to_current
from harness.records.shard import LOG

_SCHEMA: Final = "schema"


class ShardTail:
    """One shard, read from its start.

    Attributes:
        is_damaged: what was acknowledged is not there or is no shard; nothing more is read.
    """

    def __init__(self, path: Path) -> None:
        """Open the shard and its log.

        Raises:
            OSError: one of them is not there (yet, or any more).
        """
        self._log: BinaryIO = path.with_suffix(LOG).open("rb")
        try:
            self._shard: BinaryIO = path.open("rb")
        except OSError:
            self._log.close()
            raise
        self._line = b""
        self._n_read = 0
        self._n_whole = 0
        self._n_rows = 0
        self._n_rows_whole = 0
        self._schema: pa.Schema | None = None
        self.is_damaged = False

    def read_new(self) -> pa.Table | None:
        """Rows that were acknowledged since the last call, in today's columns; None without any."""
        if self.is_damaged:
            return None
        try:
            self._read_log()
            return self._read_rows()
        except (pa.ArrowException, OSError, ValueError, RecordError):
            self.is_damaged = True
            return None

    def close(self) -> None:
        """Let go of both files; safe to call twice."""
        self._log.close()
        self._shard.close()

    def _read_log(self) -> None:
        """How much of the shard is whole by now; a line half written is finished later."""
        *lines, self._line = (self._line + self._log.read()).split(b"\n")
        for line in lines[-1:]:
            self._n_rows_whole, self._n_whole, _ = map(int, line.split())

    def _read_rows(self) -> pa.Table | None:
        if self._n_whole <= self._n_read:
            return None
        data = self._shard.read(self._n_whole - self._n_read)
        if len(data) < self._n_whole - self._n_read:
            raise RecordError("bytes that were acknowledged are missing")
        self._n_read = self._n_whole
        batches = self._decode(data)
        self._n_rows += sum(batch.num_rows for batch in batches)
        if self._n_rows != self._n_rows_whole:
            raise RecordError("rows that were acknowledged are missing")
        return to_current(pa.Table.from_batches(batches)) if batches else None

    def _decode(self, data: bytes) -> list[pa.RecordBatch]:
        """The batches in a piece of the stream; the first piece begins with the schema."""
        batches = []
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
            if message.type == _SCHEMA:
                self._schema = pa.ipc.read_schema(message)
                continue
            if self._schema is None:
                raise RecordError("rows come before their schema")
            batch = pa.ipc.read_record_batch(message, self._schema)
            batch.validate(full=True)
            batches.append(batch)
        return batches
