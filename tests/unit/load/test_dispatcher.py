"""The dispatcher's core: who gets which request, and when it was meant to be sent."""

from typing import Any

import pytest

from harness.load.dispatcher import OPEN_LOOP_LEAD_NS, Dispatcher, n_users_needed
from harness.plan.plan import Cell, Plan, PlannedRequest, Segment

MS = 1_000_000


def make_cell(cell_id: str = "c0", **changes: Any) -> Cell:
    values: dict[str, Any] = {
        "id": cell_id, "factors": {}, "prompt_tokens": 8, "cot_depth": 0, "cot_step_tokens": 0,
        "accelerated": False, "concurrency": 2, "rate_rps": None, "sampling": {},
    }  # fmt: skip
    return Cell(**{**values, **changes})


def make_segment(
    name: str, n: int, *, cell: str = "c0", n_warmup: int = 0, offsets: list[int] | None = None
) -> Segment:
    requests = tuple(
        PlannedRequest(
            index=i,
            is_warmup=i < n_warmup,
            offset_ns=None if offsets is None else offsets[i] * MS,
            prompt_seed=i,
            max_tokens=4,
            sampling_seed=i,
        )
        for i in range(n)
    )
    return Segment(id=name, cell=cell, repeat=0, n_warmup=n_warmup, requests=requests)


def make_plan(*segments: Segment, cells: tuple[Cell, ...] = (make_cell(),)) -> Plan:
    return Plan(scenario="s", seed=0, cells=cells, segments=segments)


def serve(dispatcher: Dispatcher, user: int, now_ms: int, done_ms: int) -> tuple[int, float]:
    """Take, complete and record one request: its index and intended time in ms."""
    assignment = dispatcher.next_for(user, now_ms * MS)
    assert assignment is not None
    dispatcher.completed(user, done_ms * MS)
    dispatcher.recorded()
    return assignment.request.index, assignment.intended_ns / MS


def test_a_closed_loop_intends_each_send_at_the_completion_before() -> None:
    """The first send of a user is meant for now, each next one for its previous completion."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 5)))
    dispatcher.begin(0)
    assert serve(dispatcher, 0, now_ms=1, done_ms=10) == (0, 1)
    assert serve(dispatcher, 1, now_ms=2, done_ms=15) == (1, 2)
    assert serve(dispatcher, 0, now_ms=12, done_ms=20) == (2, 10)  # handed out late, meant for 10
    assert serve(dispatcher, 1, now_ms=15, done_ms=30) == (3, 15)
    assert serve(dispatcher, 0, now_ms=21, done_ms=40) == (4, 20)


def test_think_time_is_added_to_the_completion() -> None:
    """A user that thinks 5 ms is meant to send 5 ms after its answer."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 2)), think_time_ns=5 * MS)
    dispatcher.begin(0)
    serve(dispatcher, 0, now_ms=0, done_ms=10)
    assert serve(dispatcher, 0, now_ms=10, done_ms=30) == (1, 15)


def test_only_as_many_users_as_the_cell_asks_for_get_work() -> None:
    """Concurrency 2: the third user finds nothing."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 9)))
    dispatcher.begin(0)
    assert dispatcher.next_for(2, 0) is None
    assert dispatcher.next_for(1, 0) is not None
    assert dispatcher.n_in_flight == 1


def test_warm_up_comes_first_and_hands_over_without_draining() -> None:
    """The first measured request goes out while the last warm-up request is in flight."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 4, n_warmup=2)))
    dispatcher.begin(0)
    first, second = dispatcher.next_for(0, 0), dispatcher.next_for(1, 0)
    assert first is not None
    assert second is not None
    dispatcher.completed(0, 10)
    dispatcher.recorded()
    third = dispatcher.next_for(0, 10)
    assert third is not None
    flags = [a.request.is_warmup for a in (first, second, third)]
    assert (flags, dispatcher.n_in_flight) == ([True, True, False], 2)


def test_segments_never_overlap() -> None:
    """The next segment begins only when the last request of the one before is recorded."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 2), make_segment("b", 1)))
    dispatcher.begin(0)
    dispatcher.next_for(0, 0)
    dispatcher.next_for(1, 0)
    assert dispatcher.next_for(0, 1) is None
    dispatcher.completed(0, 5)
    dispatcher.recorded()
    dispatcher.completed(1, 6)
    assert not dispatcher.is_segment_over
    with pytest.raises(AssertionError, match="overlap"):
        dispatcher.begin(7)
    dispatcher.recorded()
    assert dispatcher.is_segment_over
    dispatcher.end()
    begun = dispatcher.begin(8)
    assert begun is not None
    assert begun.id == "b"


def test_a_users_history_ends_with_the_segment() -> None:
    """The first send of a new segment is meant for now, not for a completion long ago."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 1), make_segment("b", 1)))
    dispatcher.begin(0)
    serve(dispatcher, 0, now_ms=0, done_ms=10)
    dispatcher.end()
    dispatcher.begin(50 * MS)
    assert serve(dispatcher, 0, now_ms=50, done_ms=60) == (0, 50)


def test_the_plan_ends() -> None:
    """After the last segment there is nothing to begin and nothing to take."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 1)))
    dispatcher.begin(0)
    serve(dispatcher, 0, now_ms=0, done_ms=1)
    assert dispatcher.end()
    assert dispatcher.begin(2) is None
    assert dispatcher.next_for(0, 2) is None


OPEN = make_cell(concurrency=None, rate_rps=100.0)
LEAD = OPEN_LOOP_LEAD_NS / MS


def open_dispatcher(*offsets: int) -> Dispatcher:
    segment = make_segment("a", len(offsets), offsets=list(offsets))
    dispatcher = Dispatcher(make_plan(segment, cells=(OPEN,)))
    dispatcher.begin(0)
    return dispatcher


def test_an_open_loop_keeps_its_absolute_schedule() -> None:
    """Arrivals do not depend on completions: offsets from one start, however late users are."""
    dispatcher = open_dispatcher(0, 10, 20, 30)
    times = [serve(dispatcher, 0, now_ms=now, done_ms=now + 1)[1] for now in (1, 2, 500, 900)]
    assert times == [LEAD, LEAD + 10, LEAD + 20, LEAD + 30]


def test_a_free_user_takes_the_next_arrival_before_it_is_due() -> None:
    """Two free users hold the next two arrivals and wait for them."""
    dispatcher = open_dispatcher(0, 10, 20)
    held = [dispatcher.next_for(user, 0) for user in range(2)]
    assert [a.intended_ns / MS for a in held if a] == [LEAD, LEAD + 10]
    assert dispatcher.n_starved == 0


def test_arrivals_without_a_free_user_are_counted_as_starved() -> None:
    """One slow user: the second and third arrival wait 75 and 65 ms for it."""
    dispatcher = open_dispatcher(0, 10, 20)
    serve(dispatcher, 0, now_ms=0, done_ms=90)
    serve(dispatcher, 0, now_ms=90, done_ms=91)
    serve(dispatcher, 0, now_ms=90, done_ms=91)
    assert (dispatcher.n_starved, dispatcher.max_wait_ns / MS) == (2, 90 - LEAD - 10)


def test_a_stop_ends_the_segment_once_nothing_is_in_flight() -> None:
    """Nothing more is handed out; the segment does not count as done."""
    dispatcher = Dispatcher(make_plan(make_segment("a", 9), make_segment("b", 9)))
    dispatcher.begin(0)
    dispatcher.next_for(0, 0)
    dispatcher.stop(0)
    assert dispatcher.next_for(1, 0) is None
    assert not dispatcher.is_segment_over
    dispatcher.recorded()
    assert dispatcher.is_segment_over
    assert not dispatcher.end()
    assert dispatcher.begin(1) is None


def test_what_was_never_sent_leaves_no_record() -> None:
    """An arrival given back at a stop is not waited for."""
    dispatcher = open_dispatcher(0, 1000)
    dispatcher.next_for(0, 0)
    dispatcher.next_for(1, 0)
    dispatcher.stop(0)
    dispatcher.give_back()
    assert not dispatcher.is_segment_over
    dispatcher.recorded()
    assert dispatcher.is_segment_over


@pytest.mark.parametrize(
    ("concurrencies", "n_requests", "n_open", "needed"),
    [
        ((2, 8, 4), 100, 64, 8),
        ((2, 8, 4), 5, 64, 5),
        ((None,), 100, 64, 64),
        ((None,), 10, 64, 10),
    ],
)
def test_users_needed(
    concurrencies: tuple[int | None, ...], n_requests: int, n_open: int, needed: int
) -> None:
    """The largest concurrency, or the pool of the open loop, never more than one segment's."""
    cells = tuple(make_cell(f"c{i}", concurrency=c) for i, c in enumerate(concurrencies))
    segments = tuple(make_segment(cell.id, n_requests, cell=cell.id) for cell in cells)
    plan = make_plan(*segments, cells=cells)
    assert n_users_needed(plan, n_open) == needed
