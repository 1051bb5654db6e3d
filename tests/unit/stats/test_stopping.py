import math

import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.bed.marginals import copula
from harness.stats.caveat import CaveatKind
from harness.stats.stopping import Agreement, State, Stop, judge_cell

Q = 0.99


def cell(
    n_starts: int = 2, n: int = 1000, *, seed: int = 1, phi: float = 0.0, spread: float = 0.0
) -> list[list[np.ndarray]]:
    """Starts of two segments each; log-normal 0.35, starts scattered by `spread`."""
    rng = generator(seed, "cell")
    return [
        [np.exp(0.35 * copula(n, phi, rng) + level) for _ in range(2)]
        for level in spread * rng.standard_normal(n_starts)
    ]


def judge(starts: list[list[np.ndarray]], half_width: float = 0.1, planned: int = 20_000) -> Stop:
    """With what is left of `planned`."""
    n_left = max(0, planned - sum(part.size for start in starts for part in start))
    return judge_cell(starts, Q, half_width=half_width, planned=planned, n_left=n_left)


def test_a_narrow_even_cell_has_converged() -> None:
    """Four starts that agree, an interval within the target, the truth inside."""
    found = judge(cell(4))
    assert found.state is State.CONVERGED
    assert found.half_width <= 0.1
    assert found.n_needed == 0
    assert found.interval.low <= math.exp(0.35 * 2.3263) <= found.interval.high
    assert found.n_starts == 4
    assert found.r_hat is not None
    assert found.caveats == ()


def test_more_is_asked_for_while_it_is_worth_it_and_no_longer() -> None:
    """Undecided with what is missing; wide where the budget cannot reach the target, or is gone."""
    more = judge(cell(2, 300), half_width=0.1)
    assert more.state is None
    assert more.n_needed is not None
    assert 240 <= more.n_needed < 10_000
    assert judge(cell(2, 300), half_width=0.01).state is State.WIDE
    assert judge(cell(2, 300), half_width=0.1, planned=1200).state is State.WIDE


def test_the_number_predicted_is_about_what_it_takes() -> None:
    """Within a factor of two of the size at which a longer record of the same law is narrow."""
    asked = judge(cell(1, 500)).n_needed
    assert asked is not None
    total = 1000 + asked
    assert judge(cell(1, total)).half_width < 0.1
    assert judge(cell(1, total // 4)).half_width > 0.1


def test_a_growing_queue_is_saturated_and_a_drift_is_not_even() -> None:
    """Whatever the width."""
    growing = [[part * np.linspace(1, 3, part.size) for part in start] for start in cell(2)]
    assert judge(growing).state is State.SATURATED
    drifting = [[part * (1 + i) for part in start] for i, start in enumerate(cell(4))]
    found = judge(drifting)
    assert found.state is State.NONSTATIONARY
    assert CaveatKind.NONSTATIONARY in {each.kind for each in found.caveats}


def test_starts_that_do_not_agree_are_not_converged() -> None:
    """A start at another level, in no order that a trend would show."""
    starts = cell(5)
    starts[2] = [1.25 * part for part in starts[2]]
    found = judge(starts, half_width=0.3, planned=12_000)
    assert found.r_hat is not None
    assert found.r_hat > 1.01
    assert found.state is None
    kinds = {each.kind for each in found.caveats}
    assert CaveatKind.STARTS_DISAGREE in kinds
    loose = judge_cell(
        starts, Q, half_width=0.3, planned=12_000, n_left=2000, agreement=Agreement.LOOSE
    )
    assert loose.state is State.CONVERGED


def test_one_start_is_said() -> None:
    """Its interval holds within the start only."""
    found = judge(cell(1))
    assert found.r_hat is None
    assert CaveatKind.ONE_START in {each.kind for each in found.caveats}


def test_starts_that_move_widen_the_interval() -> None:
    """By what they scatter beyond their own error; the bounds stay on their sides of the value."""
    within, moved = judge(cell(8, 500)), judge(cell(8, 500, spread=0.15))
    assert moved.half_width > 1.3 * within.half_width
    assert moved.interval.low < moved.interval.value < moved.interval.high


def test_intervals_hold_over_all_looks_of_a_run_with_starts() -> None:
    """Eight rounds of a fresh start each, starts 5 % apart: at most 5 % of runs are ever wrong.

    200 runs; more than 22 wrong ones would come with a probability of 1e-3 were it 5 %.
    """
    truth = math.exp(0.35 * 2.32635 + 0.0)
    wrong = 0
    for seed in range(200):
        starts = cell(8, 300, seed=seed, phi=0.3, spread=0.05)
        looks = [judge(starts[: k + 1]).interval for k in range(1, 8)]
        mean = truth * math.exp(0.05**2 / 2)
        wrong += any(not look.low <= mean <= look.high for look in looks)
    assert wrong <= 22


def test_a_slow_begin_is_cut() -> None:
    """Half a segment's second hundred stays, its first slow ones go, and are counted."""
    starts = cell(2)
    starts[0][0][:60] *= 10
    found = judge(starts)
    assert 55 <= found.n_cut <= 70
    assert found.interval.n == 4000 - found.n_cut


@pytest.mark.parametrize(
    "values",
    [[1.0], [1.0, 2.0], [2.0] * 500, [0.0] * 500, [1.0, math.inf] * 200],
    ids=["one", "two", "equal", "zeros", "half never ended"],
)
def test_degenerate_cells_get_an_answer(values: list[float]) -> None:
    """A state or a number to go on with, never an exception, never NaN."""
    found = judge([[np.array(values)]])
    assert not math.isnan(found.half_width)
    assert found.state in {None, State.WIDE, State.CONVERGED}


@pytest.mark.parametrize(
    ("starts", "wrong"),
    [
        ([], "starts: got none"),
        ([[]], "starts: got none"),
        ([[np.array([])]], "segment 0: got shape"),
        ([[np.array([1.0, math.nan])]], "NaN"),
    ],
)
def test_what_is_no_cell_is_told(starts: list[list[np.ndarray]], wrong: str) -> None:
    """Where it is and what is allowed."""
    with pytest.raises(ValueError, match=wrong):
        judge(starts)
