"""`async_store`: journal rows go through a bounded queue and a thread, many in one commit.

A row is acknowledged when the commit that holds it is done, and a request's last event waits for
that: what was answered is stored. Rows that come while a commit runs make the next one together;
no row waits for company. A full queue holds its requests up, and is counted; nothing is dropped.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.server.journal import Journal, JournalRow

MAX_BATCH: Final = 500
"""Rows in one commit."""
MAX_QUEUED: Final = 2000
"""Rows that wait for theirs."""

_Entry = tuple["JournalRow", "asyncio.Future[None]"]


class JournalQueue:
    """Rows on their way to a journal; lives in one event loop.

    Attributes:
        journal: Where rows go.
        n_waits: How often a row found the queue full.
    """

    def __init__(self, journal: Journal, *, max_queued: int = MAX_QUEUED) -> None:
        self.journal = journal
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(max_queued)
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._flush_for_ever, name="journal", daemon=True)
        self.n_waits = 0
        self._n_queued = self._n_begun = 0
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Rows whose batch has no connection yet."""
        return self._n_queued - self._n_begun

    async def store(self, row: JournalRow) -> None:
        """Queue a row; return when it is committed, or counted as failed."""
        self.n_waits += self._room.locked()
        async with self._room:
            stored: asyncio.Future[None] = self._loop.create_future()
            self._n_queued += 1
            self._entries.put((row, stored))
            await stored

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        self._entries.put(None)
        self._thread.join()

    def _flush_for_ever(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._take()
            if batch:
                self._write([row for row, _ in batch])
                self._tell([stored for _, stored in batch])

    def _write(self, rows: list[JournalRow]) -> None:
        """Store a batch as soon as there is a connection."""
        self.journal.connections.take_blocking()
        self._n_begun += len(rows)
        try:
            self.journal.write(rows)
        finally:
            self.journal.connections.give_back()

    def _take(self) -> tuple[list[_Entry], bool]:
        """Wait for a row and take all that are there, up to a batch; False after the last."""
        batch: list[_Entry] = []
        entry = self._entries.get()
        while entry is not None:
            batch.append(entry)
            if len(batch) == MAX_BATCH or self._entries.empty():
                return batch, True
            entry = self._entries.get()
        return batch, False

    def _tell(self, stored: list[asyncio.Future[None]]) -> None:
        try:
            self._loop.call_soon_threadsafe(_complete, stored)
        except RuntimeError:  # the loop is closed: nobody waits any more, the rows are stored
            return


def _complete(stored: list[asyncio.Future[None]]) -> None:
    for future in stored:
        if not future.done():  # a request that was cancelled waits no more
            future.set_result(None)
