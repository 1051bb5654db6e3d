"""What is left of a plan after a crash."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.plan.build import build_plan
from harness.plan.plan import Plan, Segment
from harness.plan.rest import rest_of
from tests.make_records import SMALL, make_scenario

OPEN = SMALL.replace("concurrency = 2", 'mode = "open"\nrate_rps = 50.0')
CLOSED_PLAN, OPEN_PLAN = build_plan(make_scenario(SMALL)), build_plan(make_scenario(OPEN))
ALL = sorted({(s.id, r.index) for s in CLOSED_PLAN.segments for r in s.requests})
plans = st.sampled_from([CLOSED_PLAN, OPEN_PLAN])


def of(plan: Plan, name: str) -> Segment:
    return next(segment for segment in plan.segments if segment.id == name)


@given(plans, st.sets(st.sampled_from(ALL)), st.integers(2, 4))
def test_exactly_the_missing_requests_are_left(
    plan: Plan, done: set[tuple[str, int]], session: int
) -> None:
    """Whatever is done: each missing request once and unchanged but for its time, no other."""
    left = {
        (segment.id, request.index): request
        for segment in rest_of(plan, done, session).segments
        for request in segment.requests
        if request.index >= 0
    }
    assert set(left) == set(ALL) - done
    for (name, index), request in left.items():
        planned = of(plan, name).requests[index]
        for field in ("is_warmup", "prompt_seed", "max_tokens", "sampling_seed"):
            assert getattr(request, field) == getattr(planned, field)


@given(plans, st.sets(st.sampled_from(ALL)))
def test_a_broken_segment_is_warmed_up_in_full_again(
    plan: Plan, done: set[tuple[str, int]]
) -> None:
    """Where measured requests are missing, the first ones sent are a whole warm-up."""
    for segment in rest_of(plan, done, 2).segments:
        first = segment.requests[: segment.n_warmup]
        assert all(request.is_warmup for request in first)
        assert not any(request.is_warmup for request in segment.requests[segment.n_warmup :])
        if any(not request.is_warmup for request in segment.requests):
            assert len(first) == of(plan, segment.id).n_warmup


def test_warm_up_copies_are_never_mistaken() -> None:
    """Indices below 0, prompts and draws of their own in each session: no cache can answer."""
    done = set(ALL) - {("c00-r0", 5)}
    (two,), (three,) = (rest_of(CLOSED_PLAN, done, n).segments for n in (2, 3))
    assert [request.index for request in two.requests] == [-1, -2, 5]
    seeds = [r.prompt_seed for s in (*CLOSED_PLAN.segments, two, three) for r in s.requests]
    assert len(seeds) - len(set(seeds)) == 2  # request 5, planned and left twice


def test_an_open_loop_keeps_the_planned_gap_before_each_request() -> None:
    """The schedule starts anew with the segment; a request's gap to the one before stays."""
    planned = OPEN_PLAN.segments[0]
    done = {(planned.id, index) for index in (0, 1, 3)}
    left = of(rest_of(OPEN_PLAN, done, 2), planned.id)
    offsets = [r.offset_ns or 0 for r in planned.requests]
    gaps = [offsets[0], *(b - a for a, b in pairwise(offsets))]
    found = [request.offset_ns or 0 for request in left.requests]
    assert [request.index for request in left.requests][:4] == [-1, -2, 2, 4]
    assert [found[0], *(b - a for a, b in pairwise(found))][:4] == [
        gaps[0], gaps[1], gaps[2], gaps[4],
    ]  # fmt: skip


def test_untouched_segments_stay_as_planned_and_finished_ones_go() -> None:
    """Nothing done: the same plan; everything done: no segment at all."""
    assert rest_of(OPEN_PLAN, (), 2) == OPEN_PLAN
    assert rest_of(CLOSED_PLAN, set(ALL), 2).segments == ()
