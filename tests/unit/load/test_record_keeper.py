"""Decoding in the event loop's spare moments."""

import os
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent import get_hub

from harness.load.client.adapter import Ask
from harness.load.client.exchange import Exchange, HttpRequest
from harness.load.dispatcher import Assignment
from harness.load.record_keeper import Current, RecordKeeper
from harness.records.request import Outcome, RequestRecord
from tests.unit.load.test_dispatcher import make_cell, make_segment

SEGMENT = make_segment("c0-r0", 9, n_warmup=1)
ASK = Ask(model="m", prompt="p", max_tokens=1)
EXCHANGE = Exchange(started_ns=5)


class SlowAdapter:
    """An adapter whose decoding takes 2 ms of computing, in four steps with a pause after each."""

    name = path = "slow"
    is_chat = True

    def __init__(self) -> None:
        self.n_decoded = 0

    def request(self, ask: Ask) -> HttpRequest:
        """Not used."""
        raise NotImplementedError

    def is_finished(self, body: Any) -> bool:
        """Not used."""
        raise NotImplementedError

    def decode(
        self,
        exchange: Exchange,
        ask: Ask,
        *,
        keep_text: bool = False,
        pause: Callable[[], None] = lambda: None,
    ) -> RequestRecord:
        """Compute, and pause."""
        assert (ask, keep_text) == (ASK, False)
        for _ in range(4):
            until = time.thread_time_ns() + 500_000
            while time.thread_time_ns() < until:
                pass
            pause()
        self.n_decoded += 1
        return RequestRecord(outcome=Outcome.OK, intended_ns=exchange.started_ns)


def assignment(index: int) -> Assignment:
    request = SEGMENT.requests[index]
    return Assignment(segment=SEGMENT, cell=make_cell(), request=request, intended_ns=index * 100)


def keep(n: int) -> tuple[list[RequestRecord], list[Exception], SlowAdapter, RecordKeeper]:
    records: list[RequestRecord] = []
    failures: list[Exception] = []
    adapter = SlowAdapter()
    keeper = RecordKeeper(adapter, lambda record, _n: records.append(record), failures.append)
    for i in range(n):
        keeper.owe(Current(assignment=assignment(i), ask=ASK), EXCHANGE)
    return records, failures, adapter, keeper


def wait_until(condition: Callable[[], bool]) -> None:
    with gevent.Timeout(30):
        while not condition():
            gevent.sleep(0.002)


def test_sockets_are_served_between_two_slices() -> None:
    """Eight answers of 2 ms wait; a descriptor that is readable is read within the first two."""
    _, _, adapter, keeper = keep(8)
    readable, writable = os.pipe()
    decoded_at_read: list[int] = []
    watcher = get_hub().loop.io(readable, 1)

    def on_readable() -> None:
        decoded_at_read.append(adapter.n_decoded)
        watcher.stop()

    watcher.start(on_readable)
    runner = gevent.spawn(keeper.run)
    os.write(writable, b".")
    wait_until(lambda: adapter.n_decoded == 8)
    runner.kill()
    watcher.close()
    os.close(readable)
    os.close(writable)
    assert decoded_at_read[0] <= 1


def test_records_carry_their_place_in_the_plan() -> None:
    """Cell, segment, index, warm-up flag and the intended time are the assignment's."""
    records, _, _, keeper = keep(2)
    runner = gevent.spawn(keeper.run)
    wait_until(lambda: len(records) == 2)
    runner.kill()
    places = [(r.cell, r.segment, r.index, r.is_warmup, r.intended_ns) for r in records]
    assert places == [("c0", "c0-r0", 0, True, 0), ("c0", "c0-r0", 1, False, 100)]


def test_what_is_left_at_the_end_is_decoded_at_once() -> None:
    """Without a running loop nothing is lost either."""
    records, _, _, keeper = keep(3)
    keeper.settle_rest()
    assert [record.index for record in records] == [0, 1, 2]


def test_an_answer_that_cannot_be_decoded_is_a_failure_of_ours() -> None:
    """The error is handed on, its row stays, and the following answers are still decoded."""
    records, failures, adapter, keeper = keep(2)
    whole, adapter.decode = adapter.decode, None  # type: ignore[method-assign, assignment]
    keeper._settle(keeper._owed.popleft())
    adapter.decode = whole  # type: ignore[method-assign]
    keeper.settle_rest()
    assert [type(error) for error in failures] == [TypeError]
    assert [record.outcome for record in records] == [Outcome.PROTOCOL_ERROR, Outcome.OK]
