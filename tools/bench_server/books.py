"""The engine's books: what a step costs beside the model, in the engine's own process.

Scheduling, accounts, events, and the frame to the front, over a real socket pair. Told apart from
the model by the stopwatch: the phases `stream` and `kv` are the books', all others the model's; the
few copies of keys and values within `kv` count against the books.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, Self

from harness.server.engine_process import FrontLink, step_frame
from tools.bench_server.engine_decode import EngineDecode

if TYPE_CHECKING:
    from harness.server.engine import StepEvents

_READ_SIZE: Final = 1 << 20
BOOKS: Final = ("stream", "kv")


class Books(EngineDecode):
    """Decode steps as the engine's process runs them, of which only the books are timed."""

    def __enter__(self) -> Self:
        """Open the socket pair."""
        self._front, self._end = socket.socketpair()
        self._link = FrontLink(self._end)
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._end.close()
        self._front.close()

    def step(self) -> tuple[StepEvents, float]:
        """Run one step between two frames; tell what it cost beside the model."""
        began = time.process_time()
        self._link.receive(0.0)
        events = self.engine.step(self._watch)
        laps = self._watch.laps_ns
        model_s = sum(ns for phase, ns in laps.items() if phase not in BOOKS) / 1e9
        self._watch.restart(events.until_ns)
        self._link.send(step_frame(events, self.engine, {}))
        spent = time.process_time() - began
        self._front.recv(_READ_SIZE)
        return events, spent - model_s
