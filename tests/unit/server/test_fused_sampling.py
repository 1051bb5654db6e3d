import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from harness.server.phases import GcPauses, Stopwatch
from harness.server.sampler import Sampler
from harness.server.sequence import Mode, SamplingParams, Segment, Sequence
from kernels import cpu
from kernels.backend import has_native, record_calls
from tests.unit.server import build

pytestmark = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))

VOCAB = 64
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.0, "repetition": 1.3},
    {"temperature": 0.0, "frequency": 1.5, "presence": -0.5},
    {"temperature": 1.0},
    {"temperature": 0.9, "top_p": 0.9, "presence": 0.7},
    {"temperature": 0.7, "top_k": 20, "repetition": 1.2, "frequency": 0.4},
    {"temperature": 1.4, "min_p": 0.05, "frequency": -0.3},
    {"temperature": 1.1, "top_k": 50, "top_p": 0.8, "min_p": 0.01, "repetition": 0.8},
    {"temperature": 2.0, "top_k": 1, "presence": 2.0},
    {"temperature": 1.0, "ignore_eos": False, "repetition": 1.1},
    {"temperature": 0.0, "frequency": 1.5, "decay": 0.8},
    {"temperature": 0.8, "repetition": 1.3, "frequency": 0.5, "decay": 1.2, "window": 5},
    {"temperature": 0.0, "repetition": 1.3, "presence": 1.0, "window": 0},
]
BESIDE = (
    Mode(),
    Mode(layout="paged"),
    Mode(layout="paged", has_prefix_cache=True),
    Mode(is_adaptive=True),
    Mode(layout="paged", has_prefix_cache=True, is_adaptive=True, is_gc_tuned=True),
)


def requests(mode: Mode) -> list[Sequence]:
    """Every mix of settings in one batch, some with reasoning, some with log-probabilities."""
    separator = Segment(kind="reasoning", n_tokens=8, forced=(200, 201))
    return [
        build.sequence(
            number,
            build.prompt(30 + 7 * number, salt=number),
            24,
            mode=mode,
            steps=(separator, separator) if number % 3 == 1 else (),
            params=SamplingParams(
                **{"ignore_eos": True, "seed": number, **setting},
                n_logprobs=3 if number % 4 == 0 else None,
            ),
        )
        for number, setting in enumerate(SETTINGS)
    ]


@pytest.mark.parametrize("beside", BESIDE)
def test_fused_sampling_gives_the_same_tokens_beside_any_feature(beside: Mode) -> None:
    """Greedy and drawn tokens and their log-probabilities are the same with and without it."""
    outcomes = {}
    for is_fused in (False, True):
        mode = beside._replace(is_fused=is_fused)
        subject = build.engine(max_num_seqs=6, kv_tokens=1024)
        with record_calls() as calls:
            outcomes[is_fused] = build.run_dry(subject, requests(mode))
        backends = {backend for op, backend in calls if op in {"penalties", "sampling"}}
        assert backends == {"cpu" if is_fused else "torch"}
    assert outcomes[True].tokens == outcomes[False].tokens
    told, expected = (
        [
            (each.id, each.logprobs)
            for each in sorted(outcomes[is_fused].events, key=lambda event: event.id)
            if each.logprobs is not None
        ]
        for is_fused in (True, False)
    )
    assert len(told) > 50
    for (number, one), (same, other) in zip(told, expected, strict=True):
        assert number == same
        assert [token_id for token_id, _ in one[1]] == [token_id for token_id, _ in other[1]]
        values, others = ([each[0], *(value for _, value in each[1])] for each in (one, other))
        # Adaptive steps differ from run to run, and with them the rounding of matrix products.
        assert values == pytest.approx(others, abs=1e-4)


@pytest.mark.parametrize("mode", build.PATHS)
def test_decay_and_window_mean_what_they_say(mode: Mode) -> None:
    """No decay left is presence; a window of 0 is no penalty, a short one forgets, a long not."""

    def tokens(**strengths: Any) -> list[int]:
        params = SamplingParams(temperature=0.0, ignore_eos=True, **strengths)
        subject = build.sequence(0, build.prompt(40), 60, mode=mode, params=params)
        return build.run_dry(build.engine(), [subject]).tokens[0]

    plain = tokens()
    assert tokens(frequency=1.5, decay=0.0) == tokens(presence=1.5) != plain
    assert tokens(frequency=1.5, repetition=1.4, window=0) == plain
    whole = tokens(frequency=1.5)
    assert tokens(frequency=1.5, window=60) == whole
    assert whole != tokens(frequency=1.5, window=3) != plain
    assert tokens(frequency=0.3, decay=2.0) != tokens(frequency=0.3) != plain


def test_a_batch_without_penalties_asks_for_none() -> None:
    """Nobody pays for penalties that nobody wants."""
    subject = build.engine()
    with record_calls() as calls:
        build.run_dry(subject, [build.sequence(0, build.prompt(20), 8, mode=Mode(is_fused=True))])
    assert "penalties" not in {op for op, _ in calls}


def test_a_row_without_a_finite_logit_ends_with_an_error_and_alone() -> None:
    """NaN is no token: an empty row is flagged on both paths, its neighbours draw on."""
    logits = torch.randn((4, VOCAB), generator=torch.Generator().manual_seed(1)) * 3
    logits[1] = torch.nan
    logits[2, ::2] = torch.nan
    logits[3] = -torch.inf
    answers = []
    for mode in build.PATHS:
        sampler = Sampler(VOCAB, control_ids=[0], stop_ids=[1])
        sequences = [
            build.sequence(
                number,
                [5, 6],
                9,
                mode=mode,
                params=SamplingParams(temperature=number % 2, frequency=0.5, repetition=1.2),
            )
            for number in range(4)
        ]
        chosen = sampler.choose(logits.clone(), sequences, Stopwatch(GcPauses()))
        assert [token.is_faulty for token in chosen] == [False, True, False, True]
        assert chosen[2].token_id % 2 == 1
        answers.append([token.token_id for token in chosen])
    assert answers[0] == answers[1]


def test_random_rows_choose_alike_on_both_paths() -> None:
    """Over rows with ties, huge values and long histories no token differs."""
    random = np.random.default_rng(3)
    sampler = Sampler(VOCAB, control_ids=[0], stop_ids=[1])
    for _ in range(40):
        logits = torch.from_numpy(np.round(random.normal(0, 3, (len(SETTINGS), VOCAB)), 1)).float()
        history = random.integers(2, VOCAB, (len(SETTINGS), 30))
        answers = []
        for mode in build.PATHS:
            sequences = [
                replace(each, mode=mode, tokens=history[row, :10].tolist())
                for row, each in enumerate(requests(mode))
            ]
            watch = Stopwatch(GcPauses())
            sampler.choose(logits.clone(), sequences, watch)  # begins the penalties' states
            for row, each in enumerate(sequences):
                for token_id in history[row, 10:].tolist():
                    each.append_generated(token_id)
            answers.append([t.token_id for t in sampler.choose(logits.clone(), sequences, watch)])
        assert answers[0] == answers[1]


def test_penalties_cost_little_of_a_fused_step() -> None:
    """The penalty phase is at most 5 % of a decode step in which every request is penalised."""
    params = SamplingParams(temperature=0.0, repetition=1.1, frequency=0.2, ignore_eos=True)
    subject = build.engine(max_num_seqs=8)
    for number in range(8):
        subject.add(
            build.sequence(
                number,
                build.prompt(100, salt=number),
                40,
                mode=Mode(is_fused=True),
                params=params,
            )
        )
    watch = Stopwatch(GcPauses())
    shares = []
    while subject.has_work:
        events = subject.step(watch)
        shares.append(watch.laps_ns.get("penalty", 0) / sum(watch.laps_ns.values()))
        watch.restart(events.until_ns)
    assert statistics.median(shares[5:]) < 0.05
    assert statistics.median(shares[5:]) > 0
