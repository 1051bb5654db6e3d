"""Turns finished exchanges into records, in the event loop's spare moments.

One greenlet decodes for all users, 0.2 ms at a time. Between slices it waits for a full turn of the
loop, in which every socket that has data is read: `gevent.sleep(0)` would not do, since the loop
runs a greenlet that yields that way again before it looks at any socket.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gevent import get_hub
from gevent.event import Event

from harness.load.chain import Call, fold
from harness.load.client.adapter import Adapter, Ask
from harness.load.client.exchange import Exchange, bounded
from harness.load.dispatcher import Assignment
from harness.records.request import Outcome, RequestRecord

SLICE_NS: Final = 200_000
Report = Callable[[RequestRecord, int], None]
"""Takes a record and the bytes of its body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Current:
    """The call that a user is making.

    Attributes:
        assignment: its place in the plan.
        ask: what is asked.
        past: the chain's calls before it.
        intended_ns: when a chain's further call was meant to be sent.
    """

    assignment: Assignment
    ask: Ask
    past: tuple[Call, ...] = ()
    intended_ns: int = 0

    @property
    def has_next(self) -> bool:
        """Whether the chain goes on after this call."""
        return len(self.past) + 1 < self.assignment.cell.n_calls


class _Owed(NamedTuple):
    """An exchange that is not decoded yet."""

    current: Current
    exchange: Exchange


class RecordKeeper:
    """Decodes and reports every exchange once, in order of completion."""

    def __init__(
        self,
        adapter: Adapter,
        report: Report,
        on_failure: Callable[[Exception], None],
        session: int = 1,
        worker: int = 0,
    ) -> None:
        """Each record is stamped with the number of the run's session and of this process."""
        self._adapter = adapter
        self._report = report
        self._on_failure = on_failure
        self._session = session
        self._worker = worker
        self._owed: deque[_Owed] = deque()
        self._something = Event()
        self._slice_end_ns = 0
        self._is_hurried = False

    def owe(self, current: Current, exchange: Exchange) -> None:
        """Take over the request's last exchange; its record follows."""
        self._owed.append(_Owed(current, exchange))
        self._something.set()

    def read(self, current: Current, exchange: Exchange) -> Call | None:
        """Decode a chain's call for the next one to continue, in slices; None where it failed."""
        call = self._call(_Owed(current, exchange), keep_text=True)
        return call if call.record.outcome.is_ok else None

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
        current = owed.current
        try:
            calls = (*current.past, self._call(owed))
            n_calls = current.assignment.cell.n_calls
            record = fold(calls, n_calls) if n_calls > 1 else calls[0].record
            n_bytes = sum(call.n_bytes for call in calls)
            self._report(self._named(record, current.assignment), n_bytes)
        except Exception as error:  # noqa: BLE001  ends the run, with the error as its reason
            self._on_failure(error)

    def _named(self, record: RequestRecord, assignment: Assignment) -> RequestRecord:
        """The record with its place in the plan and who sent it."""
        return replace(
            record,
            step_start_ns=(assignment.intended_ns, *record.step_start_ns[1:])
            if record.step_start_ns
            else (),
            intended_ns=assignment.intended_ns,
            cell=assignment.cell.id,
            segment=assignment.segment.id,
            index=assignment.request.index,
            session=self._session,
            worker=self._worker,
            is_warmup=assignment.request.is_warmup,
        )

    def _call(self, owed: _Owed, *, keep_text: bool = False) -> Call:
        current = owed.current
        return Call(
            intended_ns=current.intended_ns if current.past else current.assignment.intended_ns,
            record=self._decode(owed, keep_text=keep_text),
            n_bytes=sum(len(piece.data) for piece in owed.exchange.chunks),
        )

    def _decode(self, owed: _Owed, *, keep_text: bool) -> RequestRecord:
        try:
            return self._adapter.decode(
                owed.exchange, owed.current.ask, keep_text=keep_text, pause=self._breathe
            )
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
