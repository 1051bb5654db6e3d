"""One simulated user: takes a request, sends it, records what became of it, takes the next.

The record of a request is decoded after the *next* one is sent, while the user would only wait: the
client's own work then never stands between a completion and the send that follows from it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import gevent

from harness.load.client.adapter import Adapter, Ask
from harness.load.client.exchange import Exchange
from harness.load.client.http import HttpClient
from harness.load.dispatcher import Assignment
from harness.load.handout import Handout
from harness.records.request import Outcome, RequestRecord

SLICE_NS: Final = 1_000_000
Report = Callable[[RequestRecord, int], None]
"""Takes a record and the bytes of its body."""


class Breather:
    """Lets other greenlets in after each millisecond of uninterrupted decoding."""

    def __init__(self) -> None:
        self._slice_end_ns = time.monotonic_ns() + SLICE_NS

    def __call__(self) -> None:
        """Yield if the slice is used up."""
        if time.monotonic_ns() > self._slice_end_ns:
            gevent.sleep(0)
            self._slice_end_ns = time.monotonic_ns() + SLICE_NS


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What every request of a run has in common.

    Attributes:
        adapter: the target's dialect.
        model: model name.
        ignore_eos: keep generating up to max_tokens.
        api_key: bearer token.
        prompts: texts by segment id, in index order.
    """

    adapter: Adapter
    model: str
    ignore_eos: bool
    api_key: str | None
    prompts: Mapping[str, list[str]]

    def ask(self, assignment: Assignment) -> Ask:
        """What is asked of the target for this assignment."""
        cell, request = assignment.cell, assignment.request
        return Ask(
            model=self.model,
            prompt=self.prompts[assignment.segment.id][request.index],
            max_tokens=request.max_tokens,
            sampling=cell.sampling,
            seed=request.sampling_seed,
            ignore_eos=self.ignore_eos,
            cot_depth=cell.cot_depth,
            cot_step_tokens=cell.cot_step_tokens,
            accelerated=cell.accelerated if "accelerated" in cell.factors else None,
            api_key=self.api_key,
        )


class _Owed(NamedTuple):
    """An exchange that is not decoded yet."""

    assignment: Assignment
    ask: Ask
    exchange: Exchange


class VirtualUser:
    """One user and its connection."""

    def __init__(
        self,
        number: int,
        handout: Handout,
        client: HttpClient,
        wording: Wording,
        report: Report,
    ) -> None:
        self._number = number
        self._handout = handout
        self._client = client
        self._wording = wording
        self._report = report
        self._owed: _Owed | None = None
        self._in_flight: Assignment | None = None

    def run(self) -> None:
        """Work until the plan is over or stopped."""
        try:
            while (assignment := self._handout.take(self._number, self._settle)) is not None:
                self._in_flight = assignment
                self._do(assignment)
        except gevent.GreenletExit:
            self._record_kill()
            raise
        finally:
            self._client.close()

    def cancel(self) -> None:
        """End the request in flight; its record says so."""
        self._client.cancel()

    def _do(self, assignment: Assignment) -> None:
        ask = self._wording.ask(assignment)
        request = self._wording.adapter.request(ask)
        if assignment.intended_ns > time.monotonic_ns():
            self._settle()
            if not self._handout.wait_until_due(assignment):
                self._in_flight = None
                return
        self._client.begin(request)
        self._settle()
        exchange = self._client.wait()
        self._in_flight = None
        self._owed = _Owed(assignment, ask, exchange)
        is_whole = exchange.failure is None and exchange.done_ns is not None
        self._handout.completed(
            self._number, exchange.done_ns if is_whole and exchange.done_ns else exchange.ended_ns
        )

    def _settle(self) -> None:
        """Decode and record the last exchange, if that is still owed."""
        owed = self._owed
        if owed is None:
            return
        record = self._wording.adapter.decode(owed.exchange, owed.ask, pause=Breather())
        self._owed = None  # only now: a kill during a pause must find it still owed
        self._finish(record, owed.assignment, sum(len(p.data) for p in owed.exchange.chunks))

    def _finish(self, record: RequestRecord, assignment: Assignment, n_bytes: int) -> None:
        named = replace(
            record,
            intended_ns=assignment.intended_ns,
            cell=assignment.cell.id,
            segment=assignment.segment.id,
            index=assignment.request.index,
            is_warmup=assignment.request.is_warmup,
        )
        self._report(named, n_bytes)
        self._handout.recorded()

    def _record_kill(self) -> None:
        """The greenlet was killed: what is owed and what was in flight still get their records."""
        self._settle()
        assignment, self._in_flight = self._in_flight, None
        if assignment is not None:
            record = RequestRecord(
                outcome=Outcome.CANCELLED,
                intended_ns=assignment.intended_ns,
                error="the user was stopped",
            )
            self._finish(record, assignment, 0)
