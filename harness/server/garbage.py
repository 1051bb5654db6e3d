"""Planted garbage: cyclic, so that reference counts cannot free it and a search must find it."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.server.phases import Stopwatch

PIECE_BYTES: Final = 4096
_MOST_OWED_S: Final = 0.1
"""An engine that slept makes up for no more than this."""


class Garbage:
    """Makes garbage at a steady rate while the engine steps; charged to `gc`."""

    def __init__(self, bytes_per_s: float, start_ns: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._made_until_ns = start_ns
        self._owed = 0.0

    def make(self, watch: Stopwatch) -> None:
        """Make what has become due since the last time."""
        now = watch.last_ns
        elapsed_s = min(_MOST_OWED_S, (now - self._made_until_ns) / 1e9)
        self._made_until_ns = now
        self._owed += self._bytes_per_s * elapsed_s
        n_pieces = int(self._owed // PIECE_BYTES)
        if n_pieces:
            self._owed -= n_pieces * PIECE_BYTES
            watch.lap("stream")
            for _ in range(n_pieces):
                _make_piece()
            watch.lap("gc")


def _make_piece() -> None:
    """Leave a cycle behind that holds memory which has been written to."""
    piece: list[object] = [b"x" * PIECE_BYTES]
    piece.append(piece)


class _Stubborn:
    """Garbage whose finalizer takes until a stamp, so that the search that finds it does too."""

    def __init__(self, until_ns: int) -> None:
        self._until_ns = until_ns
        self._self = self

    def __del__(self) -> None:
        """Pass the time."""
        spin_until(self._until_ns)


def collect_for(duration_s: float) -> None:
    """Have one search of the young generation last so long."""
    _Stubborn(time.perf_counter_ns() + round(duration_s * 1e9))
    gc.collect(0)


def spin_until(until_ns: int) -> None:
    """Pass time exactly: a sleep would overshoot laps of some ten microseconds."""
    while time.perf_counter_ns() < until_ns:
        pass
