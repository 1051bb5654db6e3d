"""Which request goes to which user, and when it was meant to be sent; no clock, no socket.

Segments run one after another and never overlap. In a closed loop `concurrency` users take the
segment's requests in order, each meant for the completion of the user's previous one plus the think
time. In an open loop every request has its absolute time from one segment start; a free user takes
the next arrival and waits for it, and when nobody is free the arrival waits, its time unchanged.
Warm-up requests are the first of a segment and are followed by the others without draining.
"""

from dataclasses import dataclass
from typing import Final

from harness.plan.plan import Cell, Plan, PlannedRequest, Segment

OPEN_LOOP_LEAD_NS: Final = 5_000_000
"""An open segment starts this much after it is begun: users must be awake for its first send."""
STARVED_NS: Final = 1_000_000
"""An arrival that finds its user later than this has starved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """One request in the hands of one user."""

    segment: Segment
    cell: Cell
    request: PlannedRequest
    intended_ns: int


class Dispatcher:
    """Deals a plan's requests to users.

    Attributes:
        n_starved: open-loop arrivals that had to wait for a free user.
        max_wait_ns: longest such wait.
        n_due_unsent: open-loop arrivals that a stop found overdue and without a user.
    """

    def __init__(self, plan: Plan, think_time_ns: int = 0) -> None:
        self._plan = plan
        self._cells = {cell.id: cell for cell in plan.cells}
        self._think_ns = think_time_ns
        self._segment: Segment | None = None
        self._start_ns = 0
        self._next = 0
        self._n_recorded = 0
        self._done_ns: dict[int, int] = {}
        self._is_stopped = False
        self.n_starved = 0
        self.max_wait_ns = 0
        self.n_due_unsent = 0
        self._n_begun = 0

    @property
    def n_in_flight(self) -> int:
        """Requests handed out and not recorded yet."""
        return self._next - self._n_recorded

    @property
    def is_segment_over(self) -> bool:
        """Whether every request of the segment is recorded, or stopped before it was handed out."""
        if self._segment is None:
            return True
        is_dealt = self._is_stopped or self._next == len(self._segment.requests)
        return is_dealt and self.n_in_flight == 0

    @property
    def n_begun(self) -> int:
        """Segments begun so far."""
        return self._n_begun

    @property
    def is_over(self) -> bool:
        """Whether there is no further segment to begin."""
        return self._is_stopped or self._n_begun == len(self._plan.segments)

    def begin(self, now_ns: int) -> Segment | None:
        """Start the next segment; None when the plan is done or stopped."""
        assert self.is_segment_over, "segments never overlap"
        self._segment = None
        if self.is_over:
            return None
        self._segment = self._plan.segments[self._n_begun]
        self._n_begun += 1
        is_open = self._cells[self._segment.cell].rate_rps is not None
        self._start_ns = now_ns + (OPEN_LOOP_LEAD_NS if is_open else 0)
        self._next = self._n_recorded = 0
        self._done_ns = {}
        return self._segment

    def next_for(self, user: int, now_ns: int) -> Assignment | None:
        """The next request for a free user, or None when there is nothing for it now."""
        segment = self._segment
        if segment is None or self._is_stopped or self._next == len(segment.requests):
            return None
        cell = self._cells[segment.cell]
        if cell.concurrency is not None and user >= cell.concurrency:
            return None
        request = segment.requests[self._next]
        self._next += 1
        return Assignment(
            segment=segment,
            cell=cell,
            request=request,
            intended_ns=self._intended_ns(request, user, now_ns),
        )

    def completed(self, user: int, done_ns: int) -> None:
        """The user's request ended at this time, well or badly."""
        self._done_ns[user] = done_ns

    def recorded(self) -> None:
        """A request that was handed out is recorded."""
        self._n_recorded += 1
        assert self._n_recorded <= self._next, "recorded more than was handed out"

    def end(self) -> bool:
        """Close the segment that is over; whether every request of it was sent in its time."""
        assert self.is_segment_over, "requests are still in flight"
        is_dealt = self._segment is not None and self._next == len(self._segment.requests)
        self._segment = None
        return is_dealt and not self._is_stopped

    def give_back(self) -> None:
        """A request was handed out and, after a stop, never sent: it leaves no record."""
        self._next -= 1

    def stop(self, now_ns: int) -> None:
        """Hand out nothing more; arrivals that are overdue by now and have no user are counted."""
        if self._segment is not None and not self._is_stopped:
            due_ns = now_ns - self._start_ns
            self.n_due_unsent += sum(
                request.offset_ns is not None and request.offset_ns <= due_ns
                for request in self._segment.requests[self._next :]
            )
        self._is_stopped = True

    def _intended_ns(self, request: PlannedRequest, user: int, now_ns: int) -> int:
        if request.offset_ns is None:
            previous = self._done_ns.get(user)
            return now_ns if previous is None else previous + self._think_ns
        intended_ns = self._start_ns + request.offset_ns
        waited_ns = now_ns - intended_ns
        if waited_ns > STARVED_NS:
            self.n_starved += 1
            self.max_wait_ns = max(self.max_wait_ns, waited_ns)
        return intended_ns


def n_users_needed(plan: Plan, n_open_users: int) -> int:
    """Users that this plan can keep busy."""
    most = max((len(segment.requests) for segment in plan.segments), default=1)
    wanted = max((cell.concurrency or n_open_users for cell in plan.cells), default=1)
    return min(wanted, most)
