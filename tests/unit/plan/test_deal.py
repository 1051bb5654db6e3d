"""Dealing a plan over load processes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.build import build_plan
from harness.plan.deal import Share, deal
from harness.plan.plan import Plan
from tests.make_records import SMALL, make_scenario

OPEN = SMALL.replace("concurrency = 2", 'mode = "open"\nrate_rps = 50.0')


def dealt(text: str, n_workers: int, n_open_users: int) -> tuple[Plan, list[Plan]]:
    plan = build_plan(make_scenario(text))
    shares = (Share(number=number, of=n_workers) for number in range(n_workers))
    return plan, [deal(plan, share, n_open_users) for share in shares]


@given(st.booleans(), st.integers(1, 9), st.integers(1, 6), st.integers(1, 6))
def test_every_request_is_dealt_to_exactly_one_process(
    is_open: bool,  # noqa: FBT001
    concurrency: int,
    n_workers: int,
    n_users: int,
) -> None:
    """Whatever the numbers: the parts of each segment are the segment, each request unchanged."""
    text = OPEN if is_open else SMALL.replace("concurrency = 2", f"concurrency = {concurrency}")
    plan, parts = dealt(text, n_workers, n_users)
    for i, segment in enumerate(plan.segments):
        pieces = [part.segments[i] for part in parts]
        found = [request for piece in pieces for request in piece.requests]
        assert sorted(found, key=lambda r: r.index) == list(segment.requests)
        assert {piece.id for piece in pieces} == {segment.id}
        assert sum(piece.n_warmup for piece in pieces) == segment.n_warmup


def test_an_open_loop_is_dealt_by_index_mod_processes() -> None:
    """Request i belongs to process i mod W and keeps its time."""
    _, parts = dealt(OPEN, 3, 64)
    for number, part in enumerate(parts):
        for segment in part.segments:
            assert {request.index % 3 for request in segment.requests} == {number}


@pytest.mark.parametrize(
    ("concurrency", "n_workers", "users"), [(5, 2, [3, 2]), (4, 2, [2, 2]), (1, 3, [1, 0, 0])]
)
def test_a_closed_loop_splits_its_users_and_each_user_has_as_much_to_send(
    concurrency: int, n_workers: int, users: list[int]
) -> None:
    """Concurrency adds up to what was asked; a process without users has nothing to send."""
    text = SMALL.replace("concurrency = 2", f"concurrency = {concurrency}")
    plan, parts = dealt(text, n_workers, 64)
    assert [part.cells[0].concurrency for part in parts] == users
    counts = Counter(r.index % concurrency for r in plan.segments[0].requests)
    for number, part in enumerate(parts):
        mine = sum(counts[user] for user in range(number, concurrency, n_workers))
        assert len(part.segments[0].requests) == mine


def test_more_processes_than_open_users_leave_the_rest_idle() -> None:
    """Two users over four processes: the last two send nothing."""
    _, parts = dealt(OPEN, 4, 2)
    n_sent = [part.n_requests for part in parts]
    assert min(n_sent[:2]) > 0
    assert n_sent[2:] == [0, 0]
