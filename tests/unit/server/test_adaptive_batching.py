import numpy as np
import pytest

from harness.server.adaptive_batching import (
    LEAST_PREFILL_SHARE,
    TARGET_STEP_S,
    Costs,
    StepCosts,
    allow_prefill,
)
from harness.server.engine import Engine
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import BASELINE, Mode
from tests.unit.server import build

ADAPTIVE = Mode(is_adaptive=True)
TRUTH = Costs(fixed_s=0.003, prefill_token_s=0.0002, decode_s=0.0005)


def seconds(costs: Costs, n_prefill: int, n_decode: int) -> float:
    return costs.fixed_s + n_prefill * costs.prefill_token_s + n_decode * costs.decode_s


def learnt(truth: Costs, n_steps: int, *, seed: int = 1) -> StepCosts:
    """Costs after a mix of steps whose time scatters by 20 %, one in 20 of them held up tenfold."""
    rng = np.random.default_rng(seed)
    costs = StepCosts()
    for _ in range(n_steps):
        n_prefill = int(rng.choice([0, 0, 40, 150, 400]))
        n_decode = int(rng.integers(0, 9))
        noise = rng.lognormal(0, 0.2) * (10 if rng.random() < 0.05 else 1)
        costs.observe(n_prefill, n_decode, seconds(truth, n_prefill, n_decode) * noise)
    return costs


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_costs_are_learnt_from_noisy_steps(scale: float) -> None:
    """After 200 steps the predicted time of any mix is within 25 % of the truth."""
    truth = Costs(*(scale * cost for cost in TRUTH))
    known = learnt(truth, 200).estimate()
    for n_prefill, n_decode in ((0, 1), (0, 8), (100, 0), (100, 8), (400, 4)):
        expected = seconds(truth, n_prefill, n_decode)
        assert seconds(known, n_prefill, n_decode) == pytest.approx(expected, rel=0.25)


def test_the_past_fades() -> None:
    """When steps become four times as dear, three hundred steps later the old cost is gone."""
    costs = learnt(TRUTH, 300)
    dear = Costs(*(4 * cost for cost in TRUTH))
    rng = np.random.default_rng(2)
    for _ in range(300):
        n_prefill, n_decode = int(rng.choice([0, 100])), int(rng.integers(1, 9))
        costs.observe(n_prefill, n_decode, seconds(dear, n_prefill, n_decode))
    assert costs.estimate().prefill_token_s == pytest.approx(4 * TRUTH.prefill_token_s, rel=0.2)


def test_costs_are_positive_whatever_is_observed() -> None:
    """Nothing measured, one kind of step only, and steps of no time at all give usable costs."""
    only_decode, nothing = StepCosts(), StepCosts()
    for _ in range(1000):
        only_decode.observe(0, 4, 0.004)
        nothing.observe(100, 3, 0.0)
    for costs in (StepCosts(), only_decode, nothing):
        assert min(costs.estimate()) > 0
        assert np.isfinite(costs.estimate()).all()


def test_without_answers_in_progress_a_prompt_is_not_cut() -> None:
    """Nobody would be held up, so a prompt may take the whole budget."""
    assert allow_prefill(TRUTH, n_decode=0, budget=512).most == 512


def test_a_step_with_answers_in_progress_ends_in_time() -> None:
    """The predicted time of the longest step allowed is the target, to a token."""
    most = allow_prefill(TRUTH, n_decode=8, budget=4096).most
    assert seconds(TRUTH, most, 8) <= TARGET_STEP_S < seconds(TRUTH, most + 1, 8)


@pytest.mark.parametrize("n_decode", [1, 8, 64])
def test_prefill_keeps_its_share(n_decode: int) -> None:
    """On a machine too slow for the target, prefill still gets its share of the step's time."""
    slow = Costs(fixed_s=0.03, prefill_token_s=0.002, decode_s=0.005)
    allowance = allow_prefill(slow, n_decode=n_decode, budget=100_000)
    assert allowance.enough == allowance.most
    prefill_s = allowance.most * slow.prefill_token_s
    share = prefill_s / seconds(slow, allowance.most, n_decode)
    assert share == pytest.approx(LEAST_PREFILL_SHARE, abs=0.01)


@pytest.mark.parametrize("n_decode", [0, 3, 200])
@pytest.mark.parametrize("costs", [TRUTH, Costs(1e-7, 1e-7, 1e-7), Costs(9.0, 1e-7, 9.0)])
def test_the_budget_is_never_passed_and_never_empty(costs: Costs, n_decode: int) -> None:
    """Whatever the costs, a step may read at least one token and at most the budget."""
    allowance = allow_prefill(costs, n_decode=n_decode, budget=512)
    assert 1 <= allowance.enough <= 512
    assert 1 <= allowance.most <= 512


def shares(subject: Engine, mode: Mode) -> list[list[tuple[int, int]]]:
    """Run one answer in progress and two long prompts; each step's (sequence, tokens)."""
    subject.scheduler.costs = learnt(Costs(0.001, 0.0005, 0.0005), 200)
    subject.add(build.sequence(0, build.prompt(20), 60, mode=mode))
    subject.step(Stopwatch(GcPauses()))
    for number in (1, 2):
        subject.add(build.sequence(number, build.prompt(300, salt=number), 2, mode=mode))
    taken = []
    while subject.scheduler.has_work:
        schedule = subject.scheduler.schedule()
        chunks = schedule.chunks
        taken.append([(chunk.sequence.id, chunk.n_tokens) for chunk in chunks])
        complete = [chunk.sequence for chunk in chunks if chunk.completes_context]
        n_tokens = sum(chunk.n_tokens for chunk in chunks)
        # What a step takes is given here, not measured: half a millisecond for each token.
        subject.scheduler.advance(chunks, 0.001 + 0.0005 * n_tokens)
        for each in complete:
            each.append_generated(5)
            if each.n_generated == each.segment.n_tokens:
                subject.scheduler.remove(each)
    return taken


def test_long_prompts_do_not_hold_answers_up() -> None:
    """Beside an answer prompts are read in pieces that fit the target, oldest first."""
    adaptive = shares(build.engine(), ADAPTIVE)
    pieces = [tokens for step in adaptive for number, tokens in step if number and tokens > 1]
    assert max(pieces) <= TARGET_STEP_S / 0.0005 * 1.2
    assert sum(pieces) == 600
    assert all((0, 1) in step for step in adaptive[:-2])
    plain = shares(build.engine(), BASELINE)
    assert plain[0] == [(0, 1), (1, 300), (2, 211)]


@pytest.mark.parametrize("seed", range(3))
def test_the_costs_stay_sound_however_long_the_server_runs(seed: int) -> None:
    """Ten thousand steps, nine in ten without prefill: finite, near the truth, allowances hold."""
    rng = np.random.default_rng(seed)
    costs = StepCosts()
    for _ in range(10_000):
        n_prefill = 0 if rng.random() < 0.9 else int(rng.integers(6, 72))
        n_decode = int(rng.integers(1, 9))
        costs.observe(n_prefill, n_decode, seconds(TRUTH, n_prefill, n_decode) * rng.lognormal())
    found = costs.estimate()
    assert np.isfinite(found).all()
    assert seconds(found, 0, 8) == pytest.approx(seconds(TRUTH, 0, 8), rel=1.0)
    assert 0 < allow_prefill(found, n_decode=8, budget=512).enough <= 512
