"""What is left of a plan after a crash: the requests without a record, as a plan of their own.

A segment that was broken off goes on with its missing requests only; what is recorded stays. Its
pipe is empty again, so its warm-up comes first: warm-up requests that have their record already are
sent once more as copies with an index below 0 and seeds of their own, so that no planned request
is sent for two rows and no cache can answer. In an open loop each request keeps its planned gap to
the one before: a subset of a Poisson process's gaps is a Poisson process of the same rate.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import pairwise

from harness.base.rng import seed_for
from harness.plan.plan import Plan, PlannedRequest, Segment

Key = tuple[str, int]
"""A request's segment and its index there."""


def rest_of(plan: Plan, done: Collection[Key], session: int) -> Plan:
    """The plan without the requests that are done, for the run's session of this number."""
    segments = (_rest_of_segment(plan.seed, segment, done, session) for segment in plan.segments)
    return replace(plan, segments=tuple(segment for segment in segments if segment.requests))


def _rest_of_segment(seed: int, segment: Segment, done: Collection[Key], session: int) -> Segment:
    missing = {r.index for r in segment.requests if (segment.id, r.index) not in done}
    if len(missing) == len(segment.requests):
        return segment
    is_measured = any(not r.is_warmup for r in segment.requests if r.index in missing)
    gaps = _gaps_ns(segment.requests)
    kept = [
        (r if r.index in missing else _again(seed, segment.id, r, session), gap)
        for r, gap in zip(segment.requests, gaps, strict=True)
        if r.index in missing or (r.is_warmup and is_measured)
    ]
    n_warmup = sum(request.is_warmup for request, _ in kept)
    return replace(segment, n_warmup=n_warmup, requests=_spaced(kept))


def _again(seed: int, segment: str, request: PlannedRequest, session: int) -> PlannedRequest:
    """A copy of a warm-up request that no record, prompt or draw can confuse with it."""
    path = ("again", session, segment, request.index)
    return replace(
        request,
        index=-1 - request.index,
        prompt_seed=seed_for(seed, "prompt", *path),
        sampling_seed=seed_for(seed, "sampling", *path) % 2**31,
    )


def _gaps_ns(requests: tuple[PlannedRequest, ...]) -> list[int | None]:
    """Time from the request before; from the segment's start for the first."""
    offsets = [request.offset_ns for request in requests]
    later = [None if a is None or b is None else b - a for a, b in pairwise(offsets)]
    return [*offsets[:1], *later]


def _spaced(kept: Iterable[tuple[PlannedRequest, int | None]]) -> tuple[PlannedRequest, ...]:
    """The requests, each its gap after the one before."""
    spaced, now_ns = [], 0
    for request, gap_ns in kept:
        now_ns += gap_ns or 0
        spaced.append(replace(request, offset_ns=None if gap_ns is None else now_ns))
    return tuple(spaced)
