"""The engine's stopwatch: splits each step's wall time into phases without a gap.

A step is a chain of laps; each lap runs from the end of the one before it, so the laps add up to
the step. Pauses of the garbage collector are taken out of the lap they fell into and become `gc`.
Whom the laps are charged to is the engine's business (`engine`), the list of phases the catalogue's
(`harness.metrics.phases`).
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class GcPauses:
    """Adds up this process' garbage-collection pauses.

    Attributes:
        n_allocated: Container objects made and not freed at once, as of the latest search.

    Args:
        on_pause: Told the generation and the nanoseconds of each.
    """

    def __init__(self, on_pause: Callable[[int, int], None] | None = None) -> None:
        self._on_pause = on_pause
        self.total_ns = 0
        self.n_allocated = 0
        self._began_ns = 0

    def install(self) -> GcPauses:
        """Start listening to the collector."""
        gc.callbacks.append(self._on_collection)
        return self

    def remove(self) -> None:
        """Stop listening."""
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, moment: str, search: Mapping[str, int]) -> None:
        now = time.perf_counter_ns()
        if moment == "start":
            self._began_ns = now
            self.n_allocated += gc.get_count()[0]
            return
        self.total_ns += now - self._began_ns
        if self._on_pause is not None:
            self._on_pause(search["generation"], now - self._began_ns)


class Stopwatch:
    """Laps of one step, or of one request's way through a process.

    Attributes:
        laps_ns: Nanoseconds by phase since `restart`.
        last_ns: End of the latest lap.
    """

    def __init__(self, pauses: GcPauses, start_ns: int | None = None) -> None:
        self._pauses = pauses
        self.restart(time.perf_counter_ns() if start_ns is None else start_ns)

    def restart(self, start_ns: int) -> None:
        """Begin a new chain of laps at a stamp that already lies behind."""
        self.laps_ns: dict[str, int] = {}
        self.last_ns = start_ns
        self._paused_ns = self._pauses.total_ns

    def lap(self, phase: str) -> int:
        """Charge the time since the last lap to a phase; return the present stamp."""
        now = time.perf_counter_ns()
        paused = self._pauses.total_ns - self._paused_ns
        laps = self.laps_ns
        if paused:
            paused = min(paused, now - self.last_ns)
            self._paused_ns = self._pauses.total_ns
            laps["gc"] = laps.get("gc", 0) + paused
        laps[phase] = laps.get(phase, 0) + now - self.last_ns - paused
        self.last_ns = now
        return now
