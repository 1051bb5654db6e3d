"""One simulated user: takes a request, sends it, hands over what became of it, takes the next.

What came back is decoded elsewhere (the record keeper), so the client's own work never stands
between a completion and the send that follows from it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import gevent

from harness.load.client.adapter import Adapter, Ask
from harness.load.client.exchange import Exchange
from harness.load.client.http import HttpClient
from harness.load.dispatcher import Assignment
from harness.load.handout import Handout
from harness.load.record_keeper import RecordKeeper
from harness.records.request import Outcome


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What every request of a run has in common.

    Attributes:
        adapter: the target's dialect.
        model: model name.
        ignore_eos: keep generating up to max_tokens.
        api_key: bearer token.
        prompts: texts by segment id, then by the request's index.
    """

    adapter: Adapter
    model: str
    ignore_eos: bool
    api_key: str | None
    prompts: Mapping[str, Mapping[int, str]]

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


class VirtualUser:
    """One user and its connection."""

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

    def run(self) -> None:
        """Work until the plan is over or stopped."""
        try:
            while (assignment := self._handout.take(self._number)) is not None:
                self._do(assignment)
        finally:
            self._client.close()

    def cancel(self) -> None:
        """End the request in flight; its record says so."""
        self._client.cancel()

    def _do(self, assignment: Assignment) -> None:
        ask = self._wording.ask(assignment)
        request = self._wording.adapter.request(ask)
        try:
            if not self._handout.wait_until_due(assignment):
                return
            exchange = self._client.exchange(request)
        except gevent.GreenletExit:
            self._keeper.owe(assignment, ask, _killed())
            raise
        is_whole = exchange.failure is None and exchange.done_ns is not None
        self._handout.completed(
            self._number, exchange.done_ns if is_whole and exchange.done_ns else exchange.ended_ns
        )
        self._keeper.owe(assignment, ask, exchange)


def _killed() -> Exchange:
    """What is left of a request whose user was killed in the middle."""
    now = time.monotonic_ns()
    return Exchange(
        started_ns=now, ended_ns=now, failure=Outcome.CANCELLED, error="the user was stopped"
    )
