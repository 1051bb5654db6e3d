"""The journal: one row per finished request, as production servers keep one.

SQLite in write-ahead mode, one commit per row, written before the request's last event. Counts,
timings and outcome; never a prompt or an answer.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.base.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path

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
    phases TEXT NOT NULL
)
"""
_INSERT: Final = "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalRow:
    """What is kept of one request; `outcome` is a finish reason, `cancelled` or `error`."""

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


class Journal:
    """Rows in an SQLite file.

    A write that fails (disk full) is counted and logged; the request it belongs to goes on.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.n_failed = 0
        try:
            self._connection = sqlite3.connect(file, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise SetupError(
                f"--journal {file}: cannot be opened ({error}). Give a file in a folder that "
                "exists and may be written, or leave the option out."
            ) from error

    def write(self, row: JournalRow) -> None:
        """Store one row and commit."""
        values: tuple[Any, ...] = (
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
        )
        try:
            self._connection.execute(_INSERT, values)
        except sqlite3.Error as error:
            self.n_failed += 1
            if self.n_failed == 1:
                _log.warning("journal %s: write failed: %s", self.file, error)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
