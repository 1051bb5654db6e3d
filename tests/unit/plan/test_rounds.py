from typing import Any

import pytest

from harness.plan.build import build_plan
from harness.plan.codec import plan_from_json, plan_to_json
from harness.plan.rounds import LEAST_SEGMENT, Wish, extend_plan, n_budget
from harness.scenario.read import validate_scenario
from harness.scenario.schema import Scenario


def scenario(**more: Any) -> Scenario:
    values = {
        "schema": 1, "name": "rounds", "title": "Rounds", "seed": 3,
        "load": {"requests_per_cell": 1000, "segments_per_cell": 4, "warmup_requests": 2},
        "output": {"tokens": 8, "spread": 4},
        "axes": {"prompt_tokens": [16, 32, 64, 128, 256]},
        "stop": {}, **more,
    }  # fmt: skip
    return validate_scenario(values, "test")


def test_the_first_round_is_a_quarter_of_the_plan_without_rounds() -> None:
    """The same cells, as many segments as tell what moves between them."""
    plan = build_plan(scenario())
    assert plan.n_measured == 5 * 250
    assert n_budget(scenario()) == build_plan(scenario(stop=None)).n_measured == 5 * 1000
    assert {segment.repeat for segment in plan.segments} == {0, 1}
    assert plan.cells == build_plan(scenario(stop=None)).cells


def test_a_round_leaves_what_was_planned_as_it_was() -> None:
    """Segments come after, with repeats of their own; the plan survives its file."""
    plan = build_plan(scenario())
    wishes = [Wish(factors={"prompt_tokens": 32}, n=120, why="precision")]
    longer = extend_plan(plan, wishes, scenario())
    assert longer.segments[: len(plan.segments)] == plan.segments
    assert longer.cells == plan.cells
    new = longer.segments[len(plan.segments) :]
    assert [(each.cell, each.repeat, each.n_warmup) for each in new] == [
        ("c01", 2, 2),
        ("c01", 3, 2),
    ]
    assert longer.n_measured == plan.n_measured + 120
    assert plan_from_json(plan_to_json(longer)) == longer


def test_a_new_place_is_a_new_cell() -> None:
    """With the next id and everything else as the scenario says; asked twice it is one."""
    wish = Wish(factors={"prompt_tokens": 47}, n=60, why="refine")
    plan = extend_plan(build_plan(scenario()), [wish], scenario())
    again = extend_plan(plan, [wish], scenario())
    assert [cell.id for cell in again.cells] == ["c00", "c01", "c02", "c03", "c04", "c05"]
    assert again.cells[-1].prompt_tokens == 47
    assert again.cells[-1].concurrency == again.cells[0].concurrency


def test_cells_of_a_repeat_share_their_draws_and_no_prompt() -> None:
    """Lengths and sampling seeds are common; no two requests of the plan have one prompt."""
    wishes = [Wish(factors={"prompt_tokens": n}, n=100, why="power") for n in (16, 40, 256)]
    plan = extend_plan(build_plan(scenario()), wishes, scenario())
    last = [segment for segment in plan.segments if segment.repeat == 3]
    assert len(last) == 3
    lengths = {tuple(request.max_tokens for request in segment.requests) for segment in last}
    assert len(lengths) == 1
    seeds = [request.prompt_seed for segment in plan.segments for request in segment.requests]
    assert len(set(seeds)) == len(seeds)
    assert len({segment.id for segment in plan.segments}) == len(plan.segments)


def test_the_order_of_cells_is_drawn_anew_for_each_repeat() -> None:
    """So that drift does not follow the axis; the same plan and wishes give the same."""
    wishes = [Wish(factors={"prompt_tokens": n}, n=200, why="power") for n in range(20, 30)]
    one, two = (extend_plan(build_plan(scenario()), wishes, scenario()) for _ in range(2))
    assert one == two
    orders = [
        [segment.cell for segment in one.segments if segment.repeat == repeat]
        for repeat in (2, 3, 4, 5)
    ]
    assert len({tuple(order) for order in orders}) == 4
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}


def test_few_requests_are_one_segment() -> None:
    """Shorter ones would be mostly warm-up."""
    wish = Wish(factors={"prompt_tokens": 16}, n=LEAST_SEGMENT + 1, why="precision")
    plan = extend_plan(build_plan(scenario()), [wish], scenario())
    assert len(plan.segments) == len(build_plan(scenario()).segments) + 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stop": {"half_width": 0.0}}, "stop.half_width"),
        ({"stop": {"agreement": "some"}}, "stop.agreement"),
        ({"stop": {"width": 0.1}}, "stop.width"),
        ({"refine": {"within_octaves": 5.0}}, "refine.within_octaves"),
        ({"refine": {}, "axes": {"prompt_tokens": [1, 2, 3, 4]}}, "at least 5 values"),
        (
            {
                "refine": {}, "analysis": {"axis": "accelerated"},
                "axes": {"accelerated": [False, True], "prompt_tokens": [1, 2, 3, 4, 5]},
            },
            "accelerated has none between",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told(wrong: dict[str, Any], words: str) -> None:
    """By its key path and what is allowed."""
    with pytest.raises(Exception, match=words):
        scenario(**wrong)
