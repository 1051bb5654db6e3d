"""How much the server takes on: a bounded number of sequences, and when to come back if it is full.

The estimate in `Retry-After` is the time in which the sequences that wait would get their slots:
their number, times the mean time a sequence held a slot lately, shared among the slots.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from harness.server.api_error import ApiError

_N_REMEMBERED: Final = 32
_MAX_RETRY_S: Final = 60


class Room:
    """Slots and places in the line.

    Args:
        n_slots: Sequences that run together.
        n_waiting: Sequences that may wait beyond those.
    """

    def __init__(self, *, n_slots: int, n_waiting: int) -> None:
        self._n_slots = n_slots
        self.n_places = n_slots + n_waiting
        self._services_s: deque[float] = deque(maxlen=_N_REMEMBERED)

    def note_service(self, seconds: float) -> None:
        """Remember how long a finished sequence held its slot."""
        self._services_s.append(seconds)

    def require(self, n_wanted: int, n_inside: int) -> None:
        """Refuse what finds no place.

        Raises:
            ApiError: 400 if it never could, 429 with `Retry-After` if not now.
        """
        limits = "(--max-num-seqs + --max-queued-requests)"
        if n_wanted > self.n_places:
            raise ApiError(
                400,
                f"n: got {n_wanted} sequences (n x prompts), allowed {self.n_places} {limits}",
                param="n",
                code="invalid_value",
            )
        if n_inside + n_wanted > self.n_places:
            raise ApiError(
                429,
                f"the queue is full: {n_inside} sequences in the server, {n_wanted} more asked "
                f"for, {self.n_places} allowed {limits}; retry later",
                code="queue_full",
                retry_after_s=self.retry_after_s(n_inside),
            )

    def retry_after_s(self, n_inside: int) -> int:
        """Estimate when the line will be empty: 1 to 60 s, 1 while nothing is known."""
        if not self._services_s:
            return 1
        n_waiting = max(1, n_inside - self._n_slots)
        mean_s = sum(self._services_s) / len(self._services_s)
        return min(_MAX_RETRY_S, max(1, math.ceil(n_waiting * mean_s / self._n_slots)))
