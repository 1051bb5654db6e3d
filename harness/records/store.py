"""The rows of a run: shards while it runs and after a crash, one Parquet file once it is whole.

`read_rows` takes whatever is there and gives each row once. `compact` turns the shards into
`requests.parquet`; it may be cut anywhere and repeated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.base.errors import RecordError
from harness.records.columns import SCHEMA, to_current
from harness.records.run import RunFolder
from harness.records.shard import LOG, SHARD, read_shard

PARQUET: Final = "requests.parquet"
BATCH_ROWS: Final = 1000
KEY: Final = ("session", "segment", "index")
"""What names a row within a run."""


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows of a run.

    Attributes:
        table: every complete row.
        torn: shards whose writer died, by file name.
        lost: shards that hold fewer rows than were acknowledged, and how many fewer.
    """

    table: pa.Table
    torn: tuple[str, ...]
    lost: tuple[tuple[str, int], ...] = ()


def read_rows(run: RunFolder) -> StoredRows:
    """Every acknowledged row of a run, once.

    Raises:
        RecordError: another schema, or a damaged file.
    """
    tables = []
    parquet = run.path / PARQUET
    if parquet.is_file():
        tables.append(_read_parquet(parquet))
    shards = [read_shard(path) for path in sorted(run.shards.glob(f"*{SHARD}"))]
    tables += [shard.table for shard in shards]
    return StoredRows(
        table=_merge(tables),
        torn=tuple(shard.name for shard in shards if shard.is_torn),
        lost=tuple((shard.name, shard.n_lost) for shard in shards if shard.n_lost),
    )


def iter_rows(run: RunFolder, n_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Every acknowledged row of a run, once, in batches of at most `n_rows`.

    A compacted run is read as it goes, a killed one shard by shard; only a run that was killed
    while it was compacted is held in memory whole.

    Raises:
        RecordError: another schema, or a damaged file.
    """
    parquet, shards = run.path / PARQUET, sorted(run.shards.glob(f"*{SHARD}"))
    if not parquet.is_file():
        for path in shards:
            yield from read_shard(path).table.to_batches(n_rows)
    elif shards:
        yield from read_rows(run).table.to_batches(n_rows)
    else:
        yield from _iter_parquet(parquet, n_rows)


def n_compacted(run: RunFolder) -> int | None:
    """Rows of the compacted run; None where there is no such file, or none that can be read."""
    parquet = run.path / PARQUET
    try:
        return int(pq.read_metadata(parquet).num_rows) if parquet.is_file() else None
    except (pa.ArrowException, OSError):
        return None


def compact(run: RunFolder) -> StoredRows:
    """Turn the shards into one Parquet file; safe to repeat after a crash.

    Raises:
        RecordError: the rows cannot be read or the file not be written.
    """
    rows = read_rows(run)
    shards = list(run.shards.glob(f"*{SHARD}"))
    if shards or not (run.path / PARQUET).is_file():
        _write_parquet(run, rows.table)
    for path in [*shards, *run.shards.glob(f"*{LOG}")]:
        path.unlink()
    return rows


def _merge(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all, each key once: a shard whose rows were compacted already adds nothing."""
    table = pa.concat_tables([SCHEMA.empty_table(), *tables])
    if sum(part.num_rows > 0 for part in tables) < 2:
        return table
    numbered = table.select(KEY).append_column("row", pa.array(np.arange(table.num_rows)))
    first = numbered.group_by(list(KEY), use_threads=False).aggregate([("row", "min")])["row_min"]
    return table if len(first) == table.num_rows else table.take(np.sort(first.to_numpy()))


def _write_parquet(run: RunFolder, table: pa.Table) -> None:
    parquet = run.path / PARQUET
    part = run.path / f".{PARQUET}.part"
    try:
        pq.write_table(table, part, compression="zstd")
        part.replace(parquet)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"{parquet}: cannot be written: {error}; free some space") from error


def _iter_parquet(path: Path, n_rows: int) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(n_rows, use_threads=False):
                yield from to_current(
                    pa.Table.from_batches([batch], file.schema_arrow)
                ).to_batches()
    except (ValueError, pa.ArrowException, OSError) as error:
        raise RecordError(f"{path}: unreadable Parquet: {error}") from error


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise RecordError(f"{path}: unreadable Parquet: {error}") from error
    try:
        return to_current(table)
    except ValueError as error:
        raise RecordError(f"{path}: {error}") from error
