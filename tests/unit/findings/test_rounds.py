"""Runs in rounds: what is wished for next, and what it leads to on laws that are known."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.findings.breaks import borders, find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.rules import sessions
from harness.plan.rounds import n_budget
from harness.scenario.read import validate_scenario
from harness.scenario.schema import Scenario
from tests.played_rounds import Played, play

GRID = [64, 96, 144, 216, 324, 486, 729]
JUMP_AT = 250
WITHIN = 0.05


def scenario(n: int = 1600, **more: Any) -> Scenario:
    values = {
        "schema": 1, "name": "rounds", "title": "Rounds", "seed": 3,
        "load": {"requests_per_cell": n, "segments_per_cell": 4, "warmup_requests": 0},
        "axes": {"prompt_tokens": GRID}, "analysis": {"axis": "prompt_tokens"}, **more,
    }  # fmt: skip
    return validate_scenario(values, "test")


def jump(factors: dict[str, Any], size: float = 0.4) -> float:
    tokens = factors["prompt_tokens"]
    return smooth(factors) * (1 + size if tokens > JUMP_AT else 1)


def smooth(factors: dict[str, Any]) -> float:
    return 0.01 + 1e-4 * float(factors["prompt_tokens"])


@pytest.fixture(scope="module")
def refined() -> Played:
    return play(scenario(refine={"within_octaves": WITHIN}), jump)


def test_without_the_tables_nothing_is_wished_for() -> None:
    """The whole plan is one round."""
    played = play(scenario(400), jump)
    assert played.why == []
    assert played.n == 7 * 400
    assert {cell.state for cell in played.cells} == {"fixed"}


def test_a_jump_is_placed_between_neighbours_and_confirmed(refined: Played) -> None:
    """The truth inside an interval within what was asked; the last round is the confirmation."""
    (found,) = refined.breakpoints
    assert found.kind == "jump"
    assert found.low is not None
    assert found.high is not None
    assert found.low <= JUMP_AT <= found.high
    assert math.log2(found.high / found.low) <= WITHIN + 1e-9
    assert refined.why[-1] == {"confirm"}
    assert found.confirmed is not None
    assert found.confirmed.low is not None
    assert found.confirmed.low > 0.1


def test_a_jump_that_fresh_rows_do_not_show_is_not_claimed(refined: Played) -> None:
    """The cell above it as fast as the one below, on the fresh start alone."""
    (found,) = refined.breakpoints
    _, above = borders(refined.cells, found)
    rows = refined.evidence.rows.copy()
    fresh = rows["segment"].isin(refined.evidence.segments_for(above.id, "confirm"))
    ttft_ns = rows.loc[fresh, "first_token_ns"] - rows.loc[fresh, "intended_ns"]
    rows.loc[fresh, "first_token_ns"] = rows.loc[fresh, "intended_ns"] + ttft_ns * 10 // 14
    evidence = replace(refined.evidence, rows=rows)
    (told,) = find_breaks(evidence, summarise_cells(evidence, []))
    assert told.kind == "none"
    assert told.confirmed is not None
    assert "was found and does not show on a fresh start: " in told.caveats[0]
    assert (
        f"between {borders(refined.cells, found)[0].id} and {above.id}, 800 req" in told.caveats[0]
    )


def test_it_takes_a_third_of_what_a_uniform_grid_as_fine_takes(refined: Played) -> None:
    """As many requests a cell as the cells beside the break have, over the same octaves."""
    axis = sorted(int(cell.factors["prompt_tokens"]) for cell in refined.cells)
    n_uniform = math.ceil(math.log2(axis[-1] / axis[0]) / WITHIN) + 1
    per_cell = sorted(cell.n for cell in refined.cells)[len(axis) // 2]
    assert refined.n <= n_uniform * per_cell / 3


def test_the_budget_of_the_plan_is_never_passed(refined: Played) -> None:
    """Asking for rounds costs no more than the grid without."""
    assert refined.n <= n_budget(refined.evidence.scenario)


def test_a_smooth_curve_gets_no_break() -> None:
    """However much is looked: five seeds."""
    wanted = scenario(800, refine={"within_octaves": 0.1})
    kinds = [play(wanted, smooth, seed=seed).breakpoints[0].kind for seed in range(5)]
    assert kinds == ["none"] * 5


def test_cells_stop_when_they_are_narrow() -> None:
    """Every cell converged, those with a longer tail later, the budget not used up."""
    wanted = scenario(4000, stop={"half_width": 0.1})
    played = play(wanted, smooth, sigma=0.2)
    assert {cell.state for cell in played.cells} == {"converged"}
    assert played.n < 0.8 * n_budget(wanted)
    for cell in played.cells:
        assert cell.stop is not None
        assert cell.stop.half_width is not None
        assert cell.stop.half_width <= 0.1
        assert cell.stop.n_starts >= 2, "one start agrees with itself"
        p99 = cell.metrics["ttft_s"]["p99"]
        truth = smooth(cell.factors) * math.exp(0.2 * 2.3263)
        assert p99.low is not None
        assert p99.high is not None
        assert p99.low <= truth <= p99.high


def test_what_cannot_be_reached_is_wide_and_its_budget_goes_elsewhere() -> None:
    """A target beyond the budget: no round is spent on it."""
    played = play(scenario(800, stop={"half_width": 0.005}), smooth)
    assert {cell.state for cell in played.cells} == {"wide"}
    assert played.why == []


def test_starts_that_differ_are_in_the_interval() -> None:
    """Cells whose starts scatter by 10 % do not agree, or are as wide as that."""
    played = play(scenario(1600, stop={"half_width": 0.05}), smooth, spread=0.1)
    for cell in played.cells:
        assert cell.stop is not None
        assert cell.state != "converged" or cell.stop.r_hat is None or cell.stop.r_hat <= 1.01


def test_a_steep_rise_is_measured_inside() -> None:
    """What a coarse grid takes for gradual: cells between tell whether it is."""
    wanted = scenario(1600, refine={"within_octaves": 0.1})
    played = play(wanted, lambda f: 0.01 * (1 + (f["prompt_tokens"] / 200) ** 3))
    assert {"refine"} in played.why
    assert len(played.cells) > len(GRID)
    assert played.breakpoints[0].kind not in {"jump", "both"}, "it is smooth"


def test_the_same_records_give_the_same_run(refined: Played) -> None:
    """Bit for bit."""
    again = play(scenario(refine={"within_octaves": WITHIN}), jump)
    assert again.evidence.plan == refined.evidence.plan
    assert again.breakpoints == refined.breakpoints


def test_a_locust_run_is_told_to_be_one_round() -> None:
    """By the command that made it; a run in rounds, and one without, are not."""
    played = play(scenario(400, stop={"half_width": 0.3}), smooth)
    one = {**played.evidence.run, "sessions": [{"number": 1}], "rounds": []}
    by_locust = replace(played.evidence, run={**one, "command": "locust -f grid.py"})
    assert ["Locust sends the first" in each.text for each in sessions.check(by_locust)] == [True]
    assert sessions.check(replace(by_locust, run={**one, "command": "tailbreak"})) == []
