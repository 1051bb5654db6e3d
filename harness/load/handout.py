"""The dispatcher's gevent shell: users wait here for work, and segments follow one another.

A segment ends when all its requests are recorded, not when the last answer is there.
"""

from collections.abc import Callable
from typing import Protocol

from gevent.event import Event

from harness.load.alarm import Alarm
from harness.load.dispatcher import Assignment, Dispatcher
from harness.plan.plan import Segment


class Turns(Protocol):
    """Says when this process may begin each segment, and hears when it is done with it."""

    def begin(self, position: int) -> int | None:
        """Wait for the segment's turn: the moment it counts from, None when the run is over."""
        ...

    def end(self, position: int, *, is_whole: bool) -> None:
        """Every request of it that was handed out is recorded; whole unless it was stopped."""
        ...


class Handout:
    """Hands work to user greenlets.

    Attributes:
        dispatcher: who gets what.
        is_stopping: nothing more is handed out.
    """

    def __init__(self, dispatcher: Dispatcher, alarm: Alarm, now: Callable[[], int]) -> None:
        self.dispatcher = dispatcher
        self.is_stopping = False
        self._alarm = alarm
        self._now = now
        self._gate = Event()
        self._over = Event()
        self._is_finished = False

    def take(self, user: int) -> Assignment | None:
        """The user's next request, perhaps meant for later; None when the plan is over."""
        while not (self.is_stopping or self._is_finished):
            assignment = self.dispatcher.next_for(user, self._now())
            if assignment is not None:
                return assignment
            self._gate.wait()
        return None

    def wait_until_due(self, assignment: Assignment) -> bool:
        """Sleep until it is meant to be sent; False when a stop came first and it must not be."""
        is_due = self._alarm.sleep_until(assignment.intended_ns)
        if is_due and not self.is_stopping:
            return True
        self.dispatcher.give_back()
        self._note_end()
        return False

    def pause_until(self, due_ns: int) -> bool:
        """Sleep between two calls of a chain; False when a stop ended the pause."""
        return self._alarm.sleep_until(due_ns)

    def completed(self, user: int, done_ns: int) -> None:
        """The user's request ended at this time."""
        self.dispatcher.completed(user, done_ns)

    def recorded(self) -> None:
        """A request is recorded."""
        self.dispatcher.recorded()
        self._note_end()

    def run(
        self,
        turns: Turns,
        on_start: Callable[[Segment], None],
        on_end: Callable[[Segment], None],
    ) -> None:
        """Run every segment; returns when the plan is done or stopped and nothing is in flight."""
        while not self.dispatcher.is_over:
            self._over.clear()
            position = self.dispatcher.n_begun
            begun_ns = turns.begin(position)
            segment = None if begun_ns is None else self.dispatcher.begin(begun_ns)
            if segment is None:
                break
            on_start(segment)
            self._open_gate()
            self._note_end()
            self._over.wait()
            is_whole = self.dispatcher.end()
            on_end(segment)
            turns.end(position, is_whole=is_whole)
        self._is_finished = True
        self._open_gate()

    def stop(self) -> None:
        """Hand out nothing more; what is in flight goes on."""
        self.is_stopping = True
        self.dispatcher.stop(self._now())
        self._alarm.wake_all()
        self._open_gate()
        self._note_end()

    def _open_gate(self) -> None:
        gate, self._gate = self._gate, Event()
        gate.set()

    def _note_end(self) -> None:
        if self.dispatcher.is_segment_over:
            self._over.set()
