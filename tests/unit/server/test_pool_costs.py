"""When a pool would be done: closed forms, a naive simulation, costs learnt from a planted law."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.server.adaptive_batching import Costs
from harness.server.pool_costs import Left, PoolCosts, predict_s, steps_until_done

COSTS = Costs(fixed_s=0.01, prefill_token_s=0.001, decode_s=0.002)


@pytest.mark.parametrize(
    ("ahead", "asked", "n_slots", "seconds"),
    [
        ([], [Left(0, 0)], 4, 0.0),
        ([], [Left(100, 10)], 4, 0.1 + 10 * 0.012),
        # Two side by side: both prompts are read, each step draws for two.
        ([Left(50, 5)], [Left(100, 10)], 4, 0.15 + 10 * 0.014),
        # One slot: what is ahead ends first.
        ([Left(0, 5)], [Left(100, 10)], 1, 0.1 + 15 * 0.012),
        # Two choices share two slots; the longer one decides.
        ([], [Left(10, 5), Left(10, 9)], 2, 0.02 + 9 * 0.014),
    ],
)
def test_predictions_are_counts_times_costs(
    ahead: list[Left], asked: list[Left], n_slots: int, seconds: float
) -> None:
    """Prompts to read x cost + steps to wait and to write x (fixed + tokens beside x cost)."""
    assert predict_s(COSTS, ahead, asked, n_slots) == pytest.approx(seconds)


def naive_steps(ahead: list[int], asked: list[int], n_slots: int) -> int:
    """Step by step: whoever has a slot writes one token; the next in line takes a free slot."""
    line = [*((n, False) for n in ahead if n), *((n, True) for n in asked if n)]
    slots: list[list[int]] = []
    n_steps = last = 0
    while line or slots:
        while line and len(slots) < n_slots:
            n_left, is_asked = line.pop(0)
            slots.append([n_left, is_asked])
        n_steps += 1
        for slot in slots:
            slot[0] -= 1
            if slot[0] == 0 and slot[1]:
                last = n_steps
        slots = [slot for slot in slots if slot[0]]
    return last


@given(
    st.lists(st.integers(0, 20), max_size=12),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_steps_are_those_of_a_step_by_step_simulation(
    ahead: list[int], asked: list[int], n_slots: int
) -> None:
    """The list schedule ends where a simulation of every step does."""
    expected = naive_steps(ahead, asked, n_slots)
    # A sequence without tokens takes no slot in the simulation and ends when its turn comes.
    assert steps_until_done(ahead, asked, n_slots) >= expected
    if all(asked):
        assert steps_until_done(ahead, asked, n_slots) == expected


@given(st.lists(st.integers(1, 50), max_size=10), st.integers(1, 50), st.integers(1, 6))
def test_more_ahead_is_never_sooner_and_more_slots_never_later(
    ahead: list[int], n_asked: int, n_slots: int
) -> None:
    """The place in line counts: work ahead delays, slots help."""
    now = steps_until_done(ahead, [n_asked], n_slots)
    assert steps_until_done([*ahead, 7], [n_asked], n_slots) >= now
    assert steps_until_done(ahead, [n_asked], n_slots + 1) <= now


def test_costs_are_learnt_from_the_requests_that_end() -> None:
    """Overlapping requests of a pool with planted costs teach its predictions to within 10 %."""
    rng = np.random.default_rng(7)
    pool = PoolCosts(Costs(fixed_s=0.1, prefill_token_s=0.0001, decode_s=0.02))
    now_s = 0.0
    inside: list[tuple[object, float, int]] = []  # work done at its start, start, steps left
    for step in range(3000):
        n_prefill = 0
        n_wanted = 1 + 7 * (step // 100 % 2)  # now quiet, now crowded
        while len(inside) < n_wanted:
            inside.append((pool.done, now_s, int(rng.integers(2, 40))))
            n_prefill += int(rng.integers(1, 300))
        seconds = COSTS.fixed_s + n_prefill * COSTS.prefill_token_s + len(inside) * COSTS.decode_s
        now_s += seconds * float(rng.lognormal(0, 0.1))
        pool.note_step(n_prefill, len(inside))
        inside = [(begun, since_s, n_left - 1) for begun, since_s, n_left in inside]
        for begun, since_s, n_left in inside:
            if n_left == 0:
                pool.learn(begun, now_s - since_s)  # type: ignore[arg-type]
        inside = [each for each in inside if each[2]]
    for n_prompt, n_beside in itertools.product((10, 300), (0, 4)):
        ahead, asked = [Left(0, 30)] * n_beside, [Left(n_prompt, 30)]
        truth = predict_s(COSTS, ahead, asked, 8)
        assert pool.predict_s(ahead, asked, 8) == pytest.approx(truth, rel=0.1)


def test_a_request_that_no_step_ran_for_teaches_nothing() -> None:
    """Without a step there is nothing to divide by."""
    pool = PoolCosts(COSTS)
    before = pool.predict_s([], [Left(10, 10)], 1)
    pool.learn(pool.done, 5.0)
    assert pool.predict_s([], [Left(10, 10)], 1) == before
