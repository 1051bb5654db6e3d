"""Nsight Systems: its SQLite export, or the trace reports of `nsys stats` as CSV.

Source: the exported tables and reports that NVIDIA documents (nsys export --type sqlite; nsys stats
--report cuda_gpu_trace, cuda_api_trace). No NVIDIA tool ran here; tests build files of that shape.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from harness.base.errors import RecordError
from harness.importers.collective_names import of_kernel
from harness.records.profile import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Category,
    Event,
    Profile,
    to_frame,
)

TOOL: Final = "Nsight Systems"
MOST_EVENTS: Final = 5_000_000
LONGEST_NAME: Final = 300
COPY_KINDS: Final = {
    1: HOST_TO_DEVICE,
    2: DEVICE_TO_HOST,
    8: "device to device",
    10: "peer to peer",
}
"""Numbers of CUPTI's memory copies."""

_STEP: Final = re.compile(r"(profiler)?(step|iteration)\W*\d*$", re.IGNORECASE)
_KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_QUERIES: Final = {
    _KERNEL: 'SELECT start, "end", streamId, shortName FROM CUPTI_ACTIVITY_KIND_KERNEL',
    _COPY: 'SELECT start, "end", streamId, bytes, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY',
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        'SELECT start, "end", globalTid, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME'
    ),
    "NVTX_EVENTS": 'SELECT start, "end", globalTid, text, textId FROM NVTX_EVENTS',
}


def read_nsight_sqlite(path: Path) -> Profile:
    """Read an export: kernels, copies, calls of the runtime, named ranges.

    Raises:
        RecordError: no such database, or more than `MOST_EVENTS` events.
    """
    file = str(path)
    where = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(where, uri=True)) as base:
            tables = _tables(base)
            missing = [name for name in _QUERIES if name not in tables]
            if {_KERNEL, _COPY} <= set(missing):
                raise RecordError(
                    f"{file}: an SQLite file without {_KERNEL} and {_COPY}; allowed is what "
                    "`nsys export --type sqlite` writes of a profile with CUDA in it"
                )
            events = _bounded(file, _events(base, tables))
            base_ns = _base_ns(base, tables)
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{file}: no readable export of Nsight Systems: {error}") from error
    caveats = tuple(f"{file}: no table {name}: what it tells is unknown" for name in missing)
    return Profile(file=file, tool=TOOL, events=to_frame(events), base_ns=base_ns, caveats=caveats)


def _tables(base: sqlite3.Connection) -> set[str]:
    """Names of the tables; a view is none of the export's, and might never end."""
    return {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _events(base: sqlite3.Connection, tables: set[str]) -> Iterator[Event]:
    texts: dict[int, str] = {}
    if "StringIds" in tables:
        texts = dict(base.execute("SELECT id, value FROM StringIds"))
    for table, query in _QUERIES.items():
        if table in tables:
            for row in base.execute(query):
                event = _MAKERS[table](texts, *row)
                if event is not None:
                    yield event


def _kernel(texts: dict[int, str], start: int, end: int, stream: int, name: int) -> Event:
    shown = texts.get(name, "?")[:LONGEST_NAME]
    kind = of_kernel(shown)
    return _event("collective" if kind else "kernel", kind or shown, start, end, lane=stream)


def _copy(_: dict[int, str], start: int, end: int, stream: int, n_bytes: int, kind: int) -> Event:
    return _event("copy", COPY_KINDS.get(kind, f"kind {kind}"), start, end, n_bytes, stream)


def _call(texts: dict[int, str], start: int, end: int, thread: int, name: int) -> Event | None:
    shown = texts.get(name, "")[:LONGEST_NAME]
    if "Launch" in shown:
        return _event("launch", shown, start, end, lane=thread)
    return _event("sync", shown, start, end, lane=thread) if "Synchronize" in shown else None


def _range(
    texts: dict[int, str],
    start: int,
    end: int | None,
    thread: int,
    text: str | None,
    text_id: int | None,
) -> Event | None:
    """A range that the program named; a mark has no end, a name may stand apart."""
    shown = (text or texts.get(text_id or 0, ""))[:LONGEST_NAME]
    if end is None or not shown:
        return None
    return _event("step" if _STEP.match(shown) else "span", shown, start, end, lane=thread)


_MAKERS: Final[dict[str, Callable[..., Event | None]]] = dict(
    zip(_QUERIES, (_kernel, _copy, _call, _range), strict=True)
)


def _event(
    category: Category, name: str, start: int, end: int, n_bytes: int | None = None, lane: Any = ""
) -> Event:
    """One event; the export counts in nanoseconds since the profile began."""
    if end < start:
        raise ValueError(f"an event that ends before it begins: {start} to {end}")
    told = None if n_bytes is None else int(n_bytes)
    return Event(category, name, start / 1e9, (end - start) / 1e9, told, str(lane))


def _base_ns(base: sqlite3.Connection, tables: set[str]) -> int:
    if "TARGET_INFO_SESSION_START_TIME" not in tables:
        return 0
    row = base.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _bounded(file: str, events: Iterable[Event]) -> list[Event]:
    kept = []
    for event in events:
        kept.append(event)
        if len(kept) > MOST_EVENTS:
            raise RecordError(f"{file}: more than {MOST_EVENTS:,} events; profile a shorter time")
    return kept
