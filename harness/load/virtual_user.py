"""One simulated user: takes a request, sends it, hands over what became of it, takes the next.

What came back is decoded elsewhere (the record keeper), so the client's own work never stands
between a completion and the send that follows from it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gevent

from harness.load.chain import Call, turns_after
from harness.load.client.adapter import Adapter, Ask
from harness.load.client.exchange import Exchange
from harness.load.client.http import HttpClient
from harness.load.dispatcher import Assignment
from harness.load.handout import Handout
from harness.load.record_keeper import Current, RecordKeeper
from harness.records.request import Outcome
from harness.records.trace import trace_id, traceparent


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What every request of a run has in common.

    Attributes:
        adapter: the target's dialect.
        model: model name.
        ignore_eos: keep generating up to max_tokens.
        api_key: bearer token.
        run: id of the run, for the trace ids.
        session: number of its session, for the same.
        prompts: texts by segment id, then by the request's index.
        think_time_ns: pause between the calls of a chain.
    """

    adapter: Adapter
    model: str
    ignore_eos: bool
    api_key: str | None
    run: str
    session: int
    prompts: Mapping[str, Mapping[int, str]]
    think_time_ns: int = 0

    def ask(self, assignment: Assignment, past: Sequence[Call] = ()) -> Ask:
        """What is asked of the target for this assignment, after the calls that are over."""
        cell, request = assignment.cell, assignment.request
        is_step = len(past) < cell.n_calls - 1
        is_chain = cell.n_calls > 1
        return Ask(
            model=self.model,
            prompt=self.prompts[assignment.segment.id][request.index],
            turns=turns_after(past, cell.n_calls),
            max_tokens=cell.cot_step_tokens if is_step else request.max_tokens,
            sampling=cell.sampling,
            seed=request.sampling_seed,
            ignore_eos=self.ignore_eos,
            cot_depth=0 if is_chain else cell.cot_depth,
            cot_step_tokens=0 if is_chain else cell.cot_step_tokens,
            accelerated=cell.accelerated if "accelerated" in cell.factors else None,
            traceparent=traceparent(self._trace_id(assignment), len(past)),
            api_key=self.api_key,
        )

    def _trace_id(self, assignment: Assignment) -> str:
        return trace_id(self.run, self.session, assignment.segment.id, assignment.request.index)


class VirtualUser:
    """One user and its connection.

    Attributes:
        is_at_work: it has begun and not left.
    """

    def __init__(
        self,
        number: int,
        handout: Handout,
        client: HttpClient,
        wording: Wording,
        keeper: RecordKeeper,
    ) -> None:
        self._number = number
        self._handout = handout
        self._client = client
        self._wording = wording
        self._keeper = keeper
        self._is_cancelled = False
        self.is_at_work = False

    def run(self) -> None:
        """Work until the plan is over or stopped."""
        self.is_at_work = True
        try:
            while (assignment := self._handout.take(self._number)) is not None:
                self._do(assignment)
        finally:
            self.is_at_work = False
            self._client.close()

    def cancel(self) -> None:
        """End the request in flight, a chain with all that was to follow; its record says so."""
        self._is_cancelled = True
        self._client.cancel()

    def _do(self, assignment: Assignment) -> None:
        """Send the request, a chain call by call, and hand over what became of it."""
        current = Current(assignment=assignment, ask=self._wording.ask(assignment))
        request = self._wording.adapter.request(current.ask)
        try:
            if not self._handout.wait_until_due(assignment):
                return
            exchange = self._client.exchange(request)
            while current.has_next and (call := self._keeper.read(current, exchange)) is not None:
                current = self._after(current, call, _end_ns(exchange))
                exchange = self._continue(current)
        except gevent.GreenletExit:
            self._keeper.owe(current, _unsent("the user was stopped"))
            raise
        self._handout.completed(self._number, _end_ns(exchange))
        self._keeper.owe(current, exchange)

    def _after(self, current: Current, call: Call, end_ns: int) -> Current:
        """The chain's next call."""
        past = (*current.past, call)
        return Current(
            assignment=current.assignment,
            ask=self._wording.ask(current.assignment, past),
            past=past,
            intended_ns=end_ns + self._wording.think_time_ns,
        )

    def _continue(self, current: Current) -> Exchange:
        """Make the chain's next call, unless a stop came in the pause or a cancel before it."""
        request = self._wording.adapter.request(current.ask)
        if not self._handout.pause_until(current.intended_ns) or self._is_cancelled:
            return _unsent("the run was stopped before this call")
        return self._client.exchange(request)


def _end_ns(exchange: Exchange) -> int:
    """When the exchange was over: its last byte where it came whole."""
    is_whole = exchange.failure is None and exchange.done_ns is not None
    return exchange.done_ns if is_whole and exchange.done_ns else exchange.ended_ns


def _unsent(why: str) -> Exchange:
    """What is left of a call that was not made, or whose user was killed in the middle."""
    now = time.monotonic_ns()
    return Exchange(started_ns=now, ended_ns=now, failure=Outcome.CANCELLED, error=why)
