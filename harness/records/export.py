"""Rows in forms that other programs read: JSON lines, CSV, Parquet; a batch at a time.

JSON lines, not one JSON array: a reader may stop anywhere, `grep` and `head` work, and nobody has
to hold ten million requests at once. CSV has one cell per column: lists and maps are JSON in their
cell, what did not happen is an empty cell, and text that a spreadsheet would take for a formula
gets an apostrophe in front.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from harness.base.errors import RecordError

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write_json_lines(batches: Iterable[pa.RecordBatch], out: TextIO) -> int:
    """One JSON object per row and line, null where nothing happened; the number of rows."""
    n_rows = 0
    for batch in batches:
        out.writelines(
            json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
            for row in _plain_rows(batch)
        )
        n_rows += batch.num_rows
    return n_rows


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: TextIO) -> int:
    """A header and one line per row; the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(schema.names)
    n_rows = 0
    for batch in batches:
        writer.writerows([_csv_cell(value) for value in row.values()] for row in _plain_rows(batch))
        n_rows += batch.num_rows
    return n_rows


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path) -> int:
    """A Parquet file, written whole or not at all; the number of rows.

    Raises:
        RecordError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    n_rows = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                n_rows += batch.num_rows
        part.replace(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return n_rows


def _plain_rows(batch: pa.RecordBatch) -> Iterable[dict[str, Any]]:
    """Rows as plain JSON values; maps become objects, numbers that are none become null."""
    maps = [field.name for field in batch.schema if pa.types.is_map(field.type)]
    for row in batch.to_pylist():
        for name in maps:
            row[name] = None if row[name] is None else dict(row[name])
        yield {name: None if value != value else value for name, value in row.items()}  # noqa: PLR0124  NaN


def _csv_cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
