"""Connections to the store: whoever writes the journal holds one of a bounded number.

As clients of a database server share a pool. The event loop waits for one without standing still,
the journal's thread blocks. Who came first is served first. A planted fault takes them all away.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.server.faults import Pause

MOST: Final = 32


class Connections:
    """A counted pool.

    Attributes:
        in_use: Those that are taken now.
    """

    def __init__(self, limit: int = MOST) -> None:
        self.limit = limit
        self.in_use = 0
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @property
    def n_waiting(self) -> int:
        """How many wait for one."""
        return sum(not turn.done() for turn in list(self._waiting))

    async def take(self) -> None:
        """Take one; wait in the event loop until it is there."""
        turn = self._ask()
        if turn is None:
            return
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # it had come already
                self.give_back()
            raise

    def take_blocking(self) -> None:
        """Take one; the calling thread stands still until it is there."""
        turn = self._ask()
        if turn is not None:
            turn.result()

    def give_back(self) -> None:
        """Hand one to whoever has waited longest."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self.in_use -= 1

    def _ask(self) -> Future[None] | None:
        """Take one at once, or a turn in the line."""
        with self._lock:
            if self.in_use < self.limit:
                self.in_use += 1
                return None
            turn: Future[None] = Future()
            self._waiting.append(turn)
            return turn

    async def lose(self, pause: Pause) -> None:
        """A planted fault: every period all are taken, for so long; until cancelled."""
        while True:
            await asyncio.sleep(pause.period_s - pause.duration_s)
            n_taken = 0
            try:
                for _ in range(self.limit):
                    await self.take()
                    n_taken += 1
                await asyncio.sleep(pause.duration_s)
            finally:
                for _ in range(n_taken):
                    self.give_back()
