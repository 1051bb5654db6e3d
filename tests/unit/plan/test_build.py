from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.base.errors import RecordError
from harness.plan.arrivals import constant_ns, poisson_ns
from harness.plan.build import build_plan
from harness.plan.codec import plan_from_json, plan_to_json
from tests.make_records import SMALL, make_scenario

OPEN = SMALL.replace("concurrency = 2", 'mode = "open"\nrate_rps = 50.0')


@given(st.integers(0, 2**63 - 1))
def test_a_plan_depends_on_the_seed_only(seed: int) -> None:
    """Building twice gives equal plans, prompts and orders; the seed decides all of it."""
    text = SMALL.replace("seed = 7", f"seed = {seed}")
    assert build_plan(make_scenario(text)) == build_plan(make_scenario(text))


def test_another_seed_gives_another_plan() -> None:
    """Order, lengths, prompts and sampling seeds all move."""
    one = build_plan(make_scenario())
    two = build_plan(make_scenario(SMALL.replace("seed = 7", "seed = 8")))
    assert one.segments[0].requests != two.segments[0].requests


def test_every_cell_gets_its_requests_in_its_segments() -> None:
    """requests_per_cell measured requests, dealt evenly, each segment with its own warm-up."""
    plan = build_plan(make_scenario(SMALL.replace("cell = 8", "cell = 9")))
    assert len(plan.cells) == 4
    for cell in plan.cells:
        segments = [segment for segment in plan.segments if segment.cell == cell.id]
        measured = [sum(not r.is_warmup for r in segment.requests) for segment in segments]
        assert sorted(measured) == [4, 5]
        assert all(sum(r.is_warmup for r in s.requests) == s.n_warmup == 2 for s in segments)


def test_segments_of_a_round_visit_every_cell_once() -> None:
    """Revisits are interleaved: a drift over the run meets every cell alike."""
    plan = build_plan(make_scenario())
    n = len(plan.cells)
    for start in range(0, len(plan.segments), n):
        visited = Counter(segment.cell for segment in plan.segments[start : start + n])
        assert visited == Counter(cell.id for cell in plan.cells)


def test_no_two_requests_share_a_prompt() -> None:
    """A prefix cache cannot answer: prompt seeds are unique over the whole plan."""
    plan = build_plan(make_scenario())
    seeds = [r.prompt_seed for segment in plan.segments for r in segment.requests]
    assert len(set(seeds)) == len(seeds)


def test_output_lengths_are_common_to_all_cells() -> None:
    """Common random numbers: in a round, request i asks for the same length in every cell."""
    plan = build_plan(make_scenario())
    rounds: dict[int, set[tuple[int, ...]]] = {}
    for segment in plan.segments:
        lengths = tuple(r.max_tokens for r in segment.requests)
        rounds.setdefault(segment.repeat, set()).add(lengths)
        assert all(6 <= length <= 10 for length in lengths)
    assert all(len(found) == 1 for found in rounds.values())


def test_a_closed_loop_has_no_schedule_and_an_open_one_has() -> None:
    """Offsets exist exactly in an open loop, and never go back."""
    assert all(
        r.offset_ns is None for s in build_plan(make_scenario()).segments for r in s.requests
    )
    for segment in build_plan(make_scenario(OPEN)).segments:
        offsets = [r.offset_ns for r in segment.requests]
        assert None not in offsets
        assert offsets == sorted(offsets, key=lambda value: value or 0)


def test_poisson_gaps_are_exponential() -> None:
    """Kolmogorov-Smirnov on 5,000 gaps at 40/s, alpha 0.1 %; mean within 5 %."""
    offsets = poisson_ns(5000, 40.0, np.random.default_rng(3))
    gaps = np.diff(offsets) / 1e9
    assert stats.kstest(gaps, "expon", args=(0, 1 / 40)).pvalue > 0.001
    assert abs(gaps.mean() * 40 - 1) < 0.05


def test_constant_arrivals_do_not_drift() -> None:
    """Offset i is i / rate, whatever the rounding: no error accumulates."""
    offsets = constant_ns(1001, 3.0)
    assert offsets[0] == 0
    assert offsets[-1] == round(1000 / 3 * 1e9)


def test_a_plan_survives_its_file() -> None:
    """Written and read back it is equal; another schema is refused by name."""
    plan = build_plan(make_scenario(OPEN))
    assert plan_from_json(plan_to_json(plan)) == plan
    with pytest.raises(RecordError, match="got schema 9"):
        plan_from_json({"schema": 9})
    with pytest.raises(RecordError, match="not a plan"):
        plan_from_json({"schema": 1})


@pytest.mark.parametrize(("mode", "calls"), [("server", [1, 1, 1]), ("chained", [1, 3, 5])])
def test_a_chain_makes_a_call_for_each_step_and_the_answer(mode: str, calls: list[int]) -> None:
    """Depth 0 is one call whoever runs the steps; the server needs one for any depth."""
    text = SMALL.replace("[axes]", f'[cot]\nmode = "{mode}"\n[axes]\ncot_depth = [0, 2, 4]')
    cells = build_plan(make_scenario(text)).cells
    assert [cell.n_calls for cell in cells if cell.prompt_tokens == 64][::2] == calls
