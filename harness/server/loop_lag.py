"""How late the event loop wakes: a timer ten times a second; the loop's own clock ticks in ms."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.server.series import Histograms

PERIOD_S: Final = 0.1


class LoopLag:
    """Measures the running loop until it is closed."""

    def __init__(self, histogram: Histograms) -> None:
        self._histogram = histogram
        self._loop = asyncio.get_running_loop()
        self._sleep()

    def close(self) -> None:
        """Stop."""
        self._timer.cancel()

    def _sleep(self) -> None:
        self._due_s = time.perf_counter() + PERIOD_S
        self._timer = self._loop.call_later(PERIOD_S, self._wake)

    def _wake(self) -> None:
        self._histogram.observe(max(0.0, time.perf_counter() - self._due_s))
        self._sleep()
