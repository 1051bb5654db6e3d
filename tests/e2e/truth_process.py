"""Truth servers with constant latencies, and tiny runs against them."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.load.session import Session, reopen
from harness.metrics.stamp_error import match_log
from harness.records.columns import from_table
from harness.records.request import RequestRecord
from harness.records.store import read_rows
from harness.server.truth.process import TruthProcess, start_truth

Truth = TruthProcess


@contextmanager
def truth_server(
    *,
    ttft_ms: float = 5.0,
    gap_ms: float = 1.0,
    fail_every: int = 0,
    fail_status: int = 500,
    freeze_at: int = 0,
    freeze_s: float = 0.0,
    no_tokenize: bool = False,
) -> Iterator[Truth]:
    """A truth server with constant latencies, stopped at the end."""
    law: dict[str, Any] = {
        "schema": 1, "name": "constant", "title": "Constant", "tokenizes": not no_tokenize,
        "ttft": {"base_s": ttft_ms / 1e3},
        "itl": {"base_s": gap_ms / 1e3},
        "truth": {"found": ["none"]},
    }  # fmt: skip
    if fail_every:
        law["failures"] = {"every": fail_every, "status": fail_status}
    if freeze_at:
        law["stall"] = {"at_request": freeze_at, "length_s": freeze_s}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "law.toml"
        path.write_text(to_toml(law))
        with start_truth(path) as server:
            yield server


def scenario_values(**load: Any) -> dict[str, Any]:
    """A tiny scenario as plain values; `load` overrides its load table."""
    return {
        "schema": 1,
        "name": "tiny",
        "title": "A tiny grid",
        "seed": 3,
        "target": {"model": "truth"},
        "load": {
            "concurrency": 4, "requests_per_cell": 20, "segments_per_cell": 2,
            "warmup_requests": 4, **load,
        },
        "output": {"tokens": 8},
        "axes": {"prompt_tokens": [32, 64]},
        "analysis": {"axis": "prompt_tokens"},
    }  # fmt: skip


def to_toml(values: dict[str, Any]) -> str:
    """Plain values of one table level as TOML."""
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    lines = [
        f"{name} = {json.dumps(value)}" for name, value in values.items() if name not in tables
    ]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def records_of(folder: Path) -> tuple[Session, list[RequestRecord]]:
    """A finished run's session and its records in the order they were sent."""
    session = reopen(folder)
    records = from_table(read_rows(session.run).table)
    return session, sorted(records, key=lambda record: record.sent_ns or 0)


def true_entries(
    session: Session, records: list[RequestRecord], log: list[dict[str, Any]]
) -> list[tuple[RequestRecord, Mapping[str, Any]]]:
    """Each record with the server's own entry."""
    return match_log(session.plan, records, log)
