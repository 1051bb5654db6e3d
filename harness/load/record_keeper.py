"""Turns finished exchanges into records, in the event loop's spare moments.

One greenlet decodes for all users, 0.2 ms at a time. Between slices it waits for a full turn of the
loop, in which every socket that has data is read: `gevent.sleep(0)` would not do, since the loop
runs a greenlet that yields that way again before it looks at any socket.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from gevent import get_hub
from gevent.event import Event

from harness.load.client.adapter import Adapter, Ask
from harness.load.client.exchange import Exchange, bounded
from harness.load.dispatcher import Assignment
from harness.records.request import Outcome, RequestRecord

SLICE_NS: Final = 200_000
Report = Callable[[RequestRecord, int], None]
"""Takes a record and the bytes of its body."""


class _Owed(NamedTuple):
    """An exchange that is not decoded yet."""

    assignment: Assignment
    ask: Ask
    exchange: Exchange


class RecordKeeper:
    """Decodes and reports every exchange once, in order of completion."""

    def __init__(
        self,
        adapter: Adapter,
        report: Report,
        on_failure: Callable[[Exception], None],
        session: int = 1,
    ) -> None:
        """Each record is stamped with the number of the run's session."""
        self._adapter = adapter
        self._report = report
        self._on_failure = on_failure
        self._session = session
        self._owed: deque[_Owed] = deque()
        self._something = Event()
        self._slice_end_ns = 0
        self._is_hurried = False

    def owe(self, assignment: Assignment, ask: Ask, exchange: Exchange) -> None:
        """Take over an exchange; its record follows."""
        self._owed.append(_Owed(assignment, ask, exchange))
        self._something.set()

    def run(self) -> None:
        """Decode what comes, for ever (a greenlet of its own)."""
        while True:
            self._something.wait()
            self._something.clear()
            self._let_the_loop_turn()
            while self._owed:
                self._settle(self._owed.popleft())
                self._breathe()

    def settle_rest(self) -> None:
        """Decode what is left, at once: the run is over and nothing is measured any more."""
        self._is_hurried = True
        while self._owed:
            self._settle(self._owed.popleft())

    def _settle(self, owed: _Owed) -> None:
        n_bytes = sum(len(piece.data) for piece in owed.exchange.chunks)
        try:
            self._report(_named(self._decode(owed), owed.assignment, self._session), n_bytes)
        except Exception as error:  # noqa: BLE001  ends the run, with the error as its reason
            self._on_failure(error)

    def _decode(self, owed: _Owed) -> RequestRecord:
        try:
            return self._adapter.decode(owed.exchange, owed.ask, pause=self._breathe)
        except Exception as error:  # noqa: BLE001  ours to mend: the run ends, the row stays
            self._on_failure(error)
            return RequestRecord(
                outcome=Outcome.PROTOCOL_ERROR,
                error=bounded(f"could not be decoded: {error!r}"),
                intended_ns=owed.exchange.started_ns,
                sent_ns=owed.exchange.sent_ns,
                done_ns=owed.exchange.done_ns,
            )

    def _breathe(self) -> None:
        if not self._is_hurried and time.monotonic_ns() > self._slice_end_ns:
            self._let_the_loop_turn()

    def _let_the_loop_turn(self) -> None:
        """Wait until the loop has looked at its sockets once."""
        hub = get_hub()
        hub.wait(hub.loop.timer(0.0))
        self._slice_end_ns = time.monotonic_ns() + SLICE_NS


def _named(record: RequestRecord, assignment: Assignment, session: int) -> RequestRecord:
    """The record with its place in the plan."""
    return replace(
        record,
        intended_ns=assignment.intended_ns,
        cell=assignment.cell.id,
        segment=assignment.segment.id,
        index=assignment.request.index,
        session=session,
        is_warmup=assignment.request.is_warmup,
    )
