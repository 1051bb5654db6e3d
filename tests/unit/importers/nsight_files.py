"""Files of the shape that NVIDIA documents, built here: no NVIDIA tool ever ran on them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
TABLES = f"""
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE {KERNEL} (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER);
CREATE TABLE {COPY} (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE {RUNTIME} (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT,
    globalTid INTEGER, textId INTEGER);
"""


class NsightSystems:
    """An SQLite export that is filled row by row; times in nanoseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._texts: dict[str, int] = {}
        with closing(sqlite3.connect(path)) as base:
            base.executescript(TABLES)

    def add(
        self,
        *,
        kernels: Sequence[tuple[int, int, str]] = (),
        copies: Sequence[tuple[int, int, int, int]] = (),
        calls: Sequence[tuple[int, int, str]] = (),
        ranges: Sequence[tuple[int, int | None, str]] = (),
    ) -> "NsightSystems":
        """Add (start, end, name) and, for copies, (start, end, bytes, kind)."""
        with closing(sqlite3.connect(self.path)) as base, base:
            base.executemany(
                f"INSERT INTO {KERNEL} (start, end, streamId, demangledName, shortName)"
                " VALUES (?, ?, 7, ?, ?)",
                [(a, b, self._text(base, name), self._text(base, name)) for a, b, name in kernels],
            )
            base.executemany(
                f"INSERT INTO {COPY} (start, end, streamId, bytes, copyKind)"
                " VALUES (?, ?, 7, ?, ?)",
                copies,
            )
            base.executemany(
                f"INSERT INTO {RUNTIME} (start, end, globalTid, nameId) VALUES (?, ?, 1, ?)",
                [(a, b, self._text(base, name)) for a, b, name in calls],
            )
            base.executemany(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid)"
                " VALUES (?, ?, 59, ?, 1)",
                ranges,
            )
        return self

    def _text(self, base: sqlite3.Connection, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = len(self._texts) + 1
            base.execute("INSERT INTO StringIds VALUES (?, ?)", (self._texts[text], text))
        return self._texts[text]
