"""When an exchange has taken too long; arithmetic on times, no clock and no timer."""

from dataclasses import dataclass
from typing import Final

from harness.records.request import Outcome

QUIET_S: Final = 1.0
"""Silence after which an answer is asked whether it has ended (`HttpRequest.is_finished`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long to wait, in seconds.

    Attributes:
        connect_s: for the connection.
        idle_s: between two reads, the wait for the first byte included.
        total_s: for the whole exchange, connecting included.
    """

    connect_s: float = 10.0
    idle_s: float = 60.0
    total_s: float = 300.0


class Deadlines:
    """The limits of one exchange.

    Attributes:
        active_ns: last time anything was sent or received.
        is_connecting: the connection is not there yet.
    """

    def __init__(self, timeouts: Timeouts, now_ns: int, *, may_ask: bool) -> None:
        self._timeouts = timeouts
        self._started_ns = now_ns
        self._may_ask = may_ask
        self._asked_ns = -1
        self.active_ns = now_ns
        self.is_connecting = False

    def next_check_s(self, now_ns: int) -> float:
        """Seconds until something can have expired, at least a millisecond."""
        limits, elapsed = self._timeouts, _seconds(now_ns - self._started_ns)
        silence = _seconds(now_ns - self.active_ns)
        waits = [limits.total_s - elapsed]
        if self.is_connecting:
            waits.append(limits.connect_s - elapsed)
        else:
            waits.append(limits.idle_s - silence)
            if self._can_ask:
                waits.append(QUIET_S - silence)
        return max(0.001, min(waits))

    def expired(self, now_ns: int) -> tuple[Outcome, str] | None:
        """The limit that has passed, as outcome and text."""
        limits, elapsed = self._timeouts, _seconds(now_ns - self._started_ns)
        if self.is_connecting and elapsed >= limits.connect_s:
            return Outcome.CONNECT_ERROR, f"no connection within {limits.connect_s:g} s"
        if elapsed >= limits.total_s:
            return Outcome.TOTAL_TIMEOUT, f"not finished within {limits.total_s:g} s"
        silence = _seconds(now_ns - self.active_ns)
        if not self.is_connecting and silence >= limits.idle_s:
            return Outcome.IDLE_TIMEOUT, f"no byte for {limits.idle_s:g} s"
        return None

    def asks_now(self, now_ns: int) -> bool:
        """Whether the silence is long enough to ask, once per silence."""
        if not self._can_ask or _seconds(now_ns - self.active_ns) < QUIET_S:
            return False
        self._asked_ns = self.active_ns
        return True

    @property
    def _can_ask(self) -> bool:
        return self._may_ask and self._asked_ns != self.active_ns


def _seconds(duration_ns: int) -> float:
    return duration_ns / 1e9
