"""Starts the truth server as its own process, and tiny runs against it."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.load.session import Session, reopen
from harness.records.columns import from_table
from harness.records.request import RequestRecord
from harness.records.store import read_rows

SCRIPT = Path(__file__).with_name("truth_server.py")


@dataclass(frozen=True)
class Truth:
    """A running truth server."""

    url: str

    def log(self) -> list[dict[str, Any]]:
        """What it really did, one entry per request."""
        with urllib.request.urlopen(f"{self.url}/log", timeout=10) as reply:
            entries: list[dict[str, Any]] = json.load(reply)
            return entries


@contextmanager
def truth_server(**options: float | bool) -> Iterator[Truth]:
    """A truth server with these options (`ttft_ms=20`), stopped at the end."""
    command = [sys.executable, str(SCRIPT)]
    for name, value in options.items():
        command.append(f"--{name.replace('_', '-')}")
        if value is not True:
            command.append(str(value))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Truth(f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


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
) -> list[tuple[RequestRecord, dict[str, Any]]]:
    """Each record with the server's own entry; seed and prompt length name a request."""
    entries = {(entry["seed"], entry["n_prompt"]): entry for entry in log}
    requests = {
        (segment.id, request.index): request
        for segment in session.plan.segments
        for request in segment.requests
    }
    return [
        (record, entries[requests[record.segment, record.index].sampling_seed, n_prompt])
        for record in records
        for n_prompt in [session.plan.cell(record.cell).prompt_tokens]
    ]
