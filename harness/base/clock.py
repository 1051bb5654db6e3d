"""Clocks: the two that measurements stand on, and the map between them.

Everything measured lives on CLOCK_MONOTONIC in integer nanoseconds. Receive stamps from the
operating system are CLOCK_REALTIME; `RealtimeMap` carries them over and notices a clock step.
"""

import time
from dataclasses import dataclass, field
from typing import Protocol

CLOCK_STEP_LIMIT_NS = 1_000_000


class Clock(Protocol):
    """Source of monotonic and wall-clock nanoseconds."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back."""
        ...

    def realtime_ns(self) -> int:
        """Nanoseconds since the epoch; may step."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def realtime_ns(self) -> int:
        """CLOCK_REALTIME."""
        return time.time_ns()


def sample_offset_ns(clock: Clock) -> int:
    """Realtime minus monotonic, from the tightest of five bracketed readings."""
    best_width, best_offset = None, 0
    for _ in range(5):
        before = clock.monotonic_ns()
        wall = clock.realtime_ns()
        after = clock.monotonic_ns()
        if best_width is None or after - before < best_width:
            best_width, best_offset = after - before, wall - (before + after) // 2
    return best_offset


@dataclass
class RealtimeMap:
    """Carries CLOCK_REALTIME stamps onto the monotonic clock.

    `refresh` follows slow drift (NTP slewing) and counts every step beyond
    `CLOCK_STEP_LIMIT_NS`: stamps near a step are worthless and void what they touched.
    """

    clock: Clock
    offset_ns: int = 0
    n_steps: int = 0
    max_drift_ns: int = field(default=0)

    def __post_init__(self) -> None:
        """Take the first offset."""
        self.offset_ns = sample_offset_ns(self.clock)

    def refresh(self) -> None:
        """Sample the offset again; a jump beyond the limit counts as a step."""
        offset = sample_offset_ns(self.clock)
        moved = abs(offset - self.offset_ns)
        if moved > CLOCK_STEP_LIMIT_NS:
            self.n_steps += 1
        else:
            self.max_drift_ns = max(self.max_drift_ns, moved)
        self.offset_ns = offset

    def to_monotonic_ns(self, realtime_ns: int) -> int:
        """The monotonic time at which the wall clock showed `realtime_ns`."""
        return realtime_ns - self.offset_ns
