"""The journal: one row per finished request, as production servers keep one.

SQLite in write-ahead mode, written before the request's last event: a commit per row here, many
rows in a commit through `journal_queue`. Counts, timings and outcome; never a prompt or an answer.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.base.errors import SetupError
from harness.server.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY,
    finished_unix_ns INTEGER NOT NULL,
    path TEXT NOT NULL,
    features TEXT NOT NULL,
    n_prompt_tokens INTEGER NOT NULL,
    n_output_tokens INTEGER NOT NULL,
    n_reasoning_tokens INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    wall_s REAL NOT NULL,
    ttft_s REAL,
    phases TEXT NOT NULL,
    trace_id TEXT
)
"""
_COLUMNS: Final = "PRAGMA table_info(requests)"
"""Files from before there were trace ids are told by it."""
_INSERT: Final = "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalRow:
    """What is kept of one request.

    Attributes:
        outcome: A finish reason, `cancelled`, `dropped` or `error`.
        trace_id: Of the caller's `traceparent`.
    """

    id: str
    finished_unix_ns: int
    path: str
    features: tuple[str, ...]
    n_prompt_tokens: int
    n_output_tokens: int
    n_reasoning_tokens: int
    outcome: str
    wall_s: float
    ttft_s: float | None
    phases: dict[str, float]
    trace_id: str | None = None


class Journal:
    """Rows in an SQLite file.

    A write that fails (disk full) is counted and logged; the requests it belongs to go on. Calls
    may come from several threads, one at a time.

    Attributes:
        connections: Whoever writes holds one; their writes run one after the other.

    Args:
        file: Where; None keeps the rows in a file without a name, which is gone when this process
            is, however it ends.
        delay_s: A planted fault: how much longer each write takes.
    """

    def __init__(self, file: Path | None = None, *, delay_s: float = 0.0) -> None:
        self.file = file
        self.n_failed = 0
        self.connections = Connections()
        self._delay_s = delay_s
        self._lock = threading.Lock()
        if file is not None:
            self._connection = _open(file)
            return
        # The names go as soon as the file, its log and its index are open; the inodes stay.
        with tempfile.TemporaryDirectory(prefix="tailbreak-journal-") as folder:
            self._connection = _open(Path(folder) / "journal.sqlite")

    def write(self, rows: Sequence[JournalRow]) -> None:
        """Store rows in one commit."""
        time.sleep(self._delay_s)
        with self._lock:
            try:
                with self._connection:
                    self._connection.executemany(_INSERT, map(_values, rows))
            except sqlite3.Error as error:
                self.n_failed += len(rows)
                if self.n_failed == len(rows):
                    _log.warning("journal %s: write failed: %s", self.file, error)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def _open(file: Path) -> sqlite3.Connection:
    """Open or create the file; its three parts are on disk afterwards."""
    try:
        connection = sqlite3.connect(file, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_SCHEMA)
        if "trace_id" not in {column for _, column, *_ in connection.execute(_COLUMNS)}:
            connection.execute("ALTER TABLE requests ADD COLUMN trace_id TEXT")
        connection.commit()
    except sqlite3.Error as error:
        raise SetupError(
            f"--journal {file}: cannot be opened ({error}). Give a file in a folder that "
            "exists and may be written, or leave the option out."
        ) from error
    return connection


def _values(row: JournalRow) -> tuple[Any, ...]:
    return (
        row.id,
        row.finished_unix_ns,
        row.path,
        ",".join(row.features),
        row.n_prompt_tokens,
        row.n_output_tokens,
        row.n_reasoning_tokens,
        row.outcome,
        row.wall_s,
        row.ttft_s,
        json.dumps(row.phases),
        row.trace_id,
    )
