"""The load process about itself: is it fast enough to be believed?

CPU share, event-loop lag, garbage-collection pauses and clock steps are measured while segments
run. Collection is kept out of them: what exists at the start is frozen, the collector is off inside
a segment and runs between segments; a segment that allocates without end is collected anyway.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from harness.load.client.rx_timestamp import RxTimestamps

PROBE_PERIOD_NS: Final = 10_000_000
SWITCH_INTERVAL_S: Final = 0.0005
MAX_YOUNG_OBJECTS: Final = 500_000
MAX_SAMPLES: Final = 1_000_000


class ClientHealth:
    """Watches the process over all segments.

    Attributes:
        gc_pause_max_s: longest collection inside a segment.
    """

    def __init__(self, stamps: RxTimestamps, sleep_until: Callable[[int], bool]) -> None:
        self._stamps = stamps
        self._sleep_until = sleep_until
        self._lag_ns: list[int] = []
        self._is_segment = False
        self._wall_ns = self._cpu_ns = 0
        self._started = (0, 0)
        self._gc_started_ns = 0
        self._switch_interval_s = sys.getswitchinterval()
        self.gc_pause_max_s = 0.0

    def start(self) -> None:
        """Exempt what start-up made from collection; have the writing thread give way soon."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._on_gc)

    def start_segment(self) -> None:
        """Measured time begins."""
        gc.disable()
        self._is_segment = True
        self._started = (time.monotonic_ns(), time.process_time_ns())

    def end_segment(self) -> None:
        """Measured time ends; clean up now."""
        wall_ns, cpu_ns = self._started
        self._wall_ns += time.monotonic_ns() - wall_ns
        self._cpu_ns += time.process_time_ns() - cpu_ns
        self._is_segment = False
        gc.enable()
        gc.collect()

    def close(self) -> None:
        """Leave the interpreter as it was found."""
        sys.setswitchinterval(self._switch_interval_s)
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)
        gc.unfreeze()
        gc.enable()

    def run_probe(self) -> None:
        """Sleep ten milliseconds, note the overshoot, for ever (a greenlet of its own)."""
        while True:
            due_ns = time.monotonic_ns() + PROBE_PERIOD_NS
            if not self._sleep_until(due_ns):
                return
            if self._is_segment and len(self._lag_ns) < MAX_SAMPLES:
                self._lag_ns.append(time.monotonic_ns() - due_ns)
            if gc.get_count()[0] > MAX_YOUNG_OBJECTS:
                gc.collect(0)

    def summary(self) -> dict[str, Any]:
        """What `client.json` says."""
        lag_s = np.asarray(self._lag_ns) / 1e9
        return {
            "cpu_s": self._cpu_ns / 1e9,
            "cpu_share": self._cpu_ns / self._wall_ns if self._wall_ns else None,
            "loop_lag_p99_s": float(np.quantile(lag_s, 0.99)) if len(lag_s) else None,
            "loop_lag_max_s": float(lag_s.max()) if len(lag_s) else None,
            "gc_pause_max_s": self.gc_pause_max_s,
            "clock_steps": self._stamps.n_clock_steps,
            "stamps": self._stamps.source.value,
            "stamps_reason": self._stamps.reason,
            "n_missing_stamps": self._stamps.n_missing,
        }

    def _on_gc(self, phase: str, _info: dict[str, int]) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            self._gc_started_ns = now
        elif self._is_segment:
            self.gc_pause_max_s = max(self.gc_pause_max_s, (now - self._gc_started_ns) / 1e9)
