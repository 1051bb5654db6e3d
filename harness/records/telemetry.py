"""Telemetry of a run: what servers and exporters said of themselves while it ran.

One row a change: a value holds until the next row of its series, or until its source was last heard
of. `up` has a row at every scrape, 1 or 0; a series that is no longer there has a row without a
value. Rows are appended to an Arrow stream batch by batch, so that `kill -9` loses no more than the
scrape in hand; `compact_telemetry` makes `telemetry.parquet` of it. Read by `metrics.window`.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.base.errors import RecordError
from harness.records.run import RunFolder

STREAM: Final = "telemetry.arrows"
PARQUET: Final = "telemetry.parquet"
SCHEMA_VERSION: Final = b"1"
UP: Final = "up"
TARGET: Final = "target"
"""The source that is the run's target."""

SCHEMA: Final = pa.schema(
    [
        pa.field("time_unix_ns", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("labels", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("kind", pa.string(), nullable=False),
    ],
    metadata={b"tailbreak.telemetry": SCHEMA_VERSION},
)

Labels = tuple[tuple[str, str], ...]


class Reading(NamedTuple):
    """One row: a series' value from this time on; None where it has none any more."""

    time_unix_ns: int
    source: str
    name: str
    labels: Labels
    value: float | None
    kind: str


class TelemetryWriter:
    """Appends rows to one session's stream; each `write` is with the operating system on return."""

    def __init__(self, run: RunFolder, session: int) -> None:
        """Open the stream.

        Raises:
            RecordError: it cannot be made.
        """
        self.path = run.path / run.file_of_session(STREAM, session)
        try:
            self._file = self.path.open("xb")
            self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be made: {error.strerror}") from error

    def write(self, rows: Sequence[Reading]) -> None:
        """Append the rows of one scrape.

        Raises:
            RecordError: the disk is full.
        """
        if not rows:
            return
        try:
            self._stream.write_batch(_to_batch(rows))
            self._file.flush()
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """End the stream; what was written before stays readable whatever happens here."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._file.close()


def read_telemetry(run: RunFolder) -> pd.DataFrame | None:
    """Every row of a run, by time; None where nothing was scraped.

    Columns are those of `SCHEMA`; `labels` are sorted pairs and a missing value is NaN.

    Raises:
        RecordError: another schema, or a damaged file.
    """
    table = _read(run)
    return _to_frame(table) if table is not None and table.num_rows else None


def read_telemetry_file(path: Path) -> pd.DataFrame:
    """Every row of one telemetry file, by time.

    Raises:
        RecordError: it is none, or damaged.
    """
    return _to_frame(_read_parquet(path))


def compact_telemetry(run: RunFolder) -> None:
    """Turn the streams into one Parquet file; safe to repeat after a crash.

    Raises:
        RecordError: they cannot be read, or the file not be written.
    """
    streams = _streams(run)
    table = _read(run) if streams else None
    if table is not None:
        write_telemetry(run.path / PARQUET, table)
    for path in streams:
        path.unlink()


def write_telemetry(path: Path, rows: pa.Table | Sequence[Reading]) -> None:
    """Write a telemetry file whole or not at all.

    Raises:
        RecordError: it cannot be written.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([_to_batch(rows)])
    part = path.with_name(f".{path.name}.part")
    try:
        pq.write_table(table, part, compression="zstd")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"{path}: cannot be written: {error}; free some space") from error


def to_readings(rows: Sequence[Reading]) -> pd.DataFrame:
    """Rows as the frame that `read_telemetry` gives."""
    return _to_frame(pa.Table.from_batches([_to_batch(rows)]))


def _to_batch(rows: Sequence[Reading]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    arrays = [
        pa.array(values, type=field.type) for values, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _to_frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    frame["labels"] = [tuple(sorted(pairs)) for pairs in frame["labels"]]
    return frame.sort_values("time_unix_ns", kind="stable", ignore_index=True)


def _streams(run: RunFolder) -> list[Path]:
    return sorted(run.path.glob("telemetry*.arrows"))


def _read(run: RunFolder) -> pa.Table | None:
    """Compacted rows, then those of streams that are no part of them yet."""
    parquet = run.path / PARQUET
    tables = [_read_parquet(parquet)] if parquet.is_file() else []
    latest = -1 if not tables else max(tables[0]["time_unix_ns"].to_numpy(), default=-1)
    for path in _streams(run):
        table = _read_stream(path)
        fresh = table["time_unix_ns"].to_numpy() > latest
        tables.append(table.filter(pa.array(fresh)))
    return pa.concat_tables(tables) if tables else None


def _read_stream(path: Path) -> pa.Table:
    """The whole batches of a stream, which a crash may have cut."""
    batches: list[pa.RecordBatch] = []
    with contextlib.suppress(pa.ArrowException, OSError, StopIteration):
        reader = pa.ipc.open_stream(pa.py_buffer(path.read_bytes()))
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema=SCHEMA)


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise RecordError(f"{path}: unreadable Parquet: {error}") from error
    found = (table.schema.metadata or {}).get(b"tailbreak.telemetry", b"none")
    if found != SCHEMA_VERSION:
        raise RecordError(
            f"{path}: got telemetry schema {found.decode(errors='replace')}, this version reads 1"
        )
    return table.select(SCHEMA.names).cast(SCHEMA)
