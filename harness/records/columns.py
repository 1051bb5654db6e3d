"""Columns of the request store: one Arrow schema, version in its metadata.

History: 1 is the first; 2 adds what `ADDED` lists. Older rows are read with the values given there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from harness.records.request import Outcome, RequestRecord, Stamps

SCHEMA_VERSION = 2

_WHOLES = pa.list_(pa.int64())
_COUNTS = pa.map_(pa.string(), pa.int64())
_SECONDS = pa.map_(pa.string(), pa.float64())
_TEXTS = pa.list_(pa.string())

COLUMNS: Mapping[str, pa.DataType] = {
    "cell": pa.string(),
    "segment": pa.string(),
    "index": pa.int64(),
    "session": pa.int64(),
    "is_warmup": pa.bool_(),
    "worker": pa.int64(),
    "outcome": pa.string(),
    "http_status": pa.int64(),
    "error": pa.string(),
    "intended_ns": pa.int64(),
    "sent_ns": pa.int64(),
    "headers_ns": pa.int64(),
    "first_byte_ns": pa.int64(),
    "first_event_ns": pa.int64(),
    "first_token_ns": pa.int64(),
    "first_token_read_ns": pa.int64(),
    "first_output_ns": pa.int64(),
    "done_ns": pa.int64(),
    "token_ns": _WHOLES,
    "chunk_ns": _WHOLES,
    "late_read": pa.list_(pa.bool_()),
    "rx_lag_ns": pa.int64(),
    "n_prompt_tokens": pa.int64(),
    "n_output_tokens": pa.int64(),
    "n_reasoning_tokens": pa.int64(),
    "count_source": pa.string(),
    "finish_reason": _TEXTS,
    "text": pa.string(),
    "reasoning": pa.string(),
    "tool_text": pa.string(),
    "phases": _SECONDS,
    "ttft_phases": _SECONDS,
    "server_ttft_s": pa.float64(),
    "server_e2e_s": pa.float64(),
    "n_evictions": pa.int64(),
    "step_start_ns": _WHOLES,
    "step_sent_ns": _WHOLES,
    "step_first_ns": _WHOLES,
    "step_done_ns": _WHOLES,
    "step_tokens": _WHOLES,
    "step_kv_tokens": _WHOLES,
    "features": _TEXTS,
    "anomalies": _COUNTS,
    "stamps": pa.string(),
}

SCHEMA = pa.schema(
    [pa.field(name, kind) for name, kind in COLUMNS.items()],
    metadata={"tailbreak.schema": str(SCHEMA_VERSION)},
)

ADDED: Mapping[int, Mapping[str, Any]] = {
    2: {
        "session": 1,
        "worker": 0,
        "first_token_read_ns": None,
        "step_start_ns": [],
        "step_sent_ns": [],
        "step_first_ns": [],
        "step_done_ns": [],
        "step_tokens": [],
        "step_kv_tokens": [],
    }
}
"""By version: its new columns, with the value that rows of an older version have there."""

_MAPS = frozenset({"phases", "ttft_phases", "anomalies"})
_TUPLES = frozenset(name for name, kind in COLUMNS.items() if pa.types.is_list(kind))

assert set(COLUMNS) == {field.name for field in fields(RequestRecord)}


def to_batch(records: Sequence[RequestRecord]) -> pa.RecordBatch:
    """Rows to one Arrow batch."""
    arrays = [
        pa.array([_to_cell(name, getattr(record, name)) for record in records], type=kind)
        for name, kind in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def to_current(table: pa.Table) -> pa.Table:
    """A table of this version or an older one, with every column of this version.

    Raises:
        ValueError: its version is none that can be read; the message says which.
    """
    found = (table.schema.metadata or {}).get(b"tailbreak.schema", b"none").decode(errors="replace")
    if found not in map(str, range(1, SCHEMA_VERSION + 1)):
        known = f"1 to {SCHEMA_VERSION}"
        raise ValueError(f"got record schema {found}, this version reads {known}")
    for version in range(int(found) + 1, SCHEMA_VERSION + 1):
        for name, value in ADDED[version].items():
            column = pa.repeat(pa.scalar(value, COLUMNS[name]), table.num_rows)
            table = table.append_column(SCHEMA.field(name), column)
    return table.select(list(COLUMNS)).cast(SCHEMA)


def from_table(table: pa.Table) -> list[RequestRecord]:
    """Arrow rows back to records, bit for bit."""
    return [_record(row) for row in table.to_pylist()]


def _to_cell(name: str, value: Any) -> Any:
    if name in _MAPS:
        return list(value.items())
    return list(value) if name in _TUPLES else value


def _record(row: dict[str, Any]) -> RequestRecord:
    values = dict(row)
    for name in _MAPS:
        values[name] = dict(values[name])
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["outcome"] = Outcome(values["outcome"])
    values["stamps"] = Stamps(values["stamps"])
    return RequestRecord(**values)
