from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.server.block_manager import BlockManager
from harness.server.contiguous import RangeAllocator
from harness.server.engine import Engine
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import BASELINE, Mode, SamplingParams, Segment, Sequence
from tests.unit.server import build


@pytest.mark.parametrize("mode", build.MODES)
def test_greedy_tokens_are_those_of_the_full_causal_pass(mode: Mode) -> None:
    """Batching, chunks, layouts, growth and eviction change no token of a greedy answer."""
    lengths = [5, 64, 90, 200, 130, 61, 250, 33]
    sequences = [
        build.sequence(index, build.prompt(length, salt=index), 24 + index, mode=mode)
        for index, length in enumerate(lengths)
    ]
    subject = build.engine(kv_tokens=512, max_num_batched_tokens=96, max_num_seqs=6)
    outcome = build.run_dry(subject, sequences)
    n_checked = 0
    for index, length in enumerate(lengths):
        assert len(outcome.tokens[index]) == 24 + index
        n_checked += build.first_close_call(build.prompt(length, salt=index), outcome.tokens[index])
    assert n_checked > 150
    assert subject.scheduler.n_evictions > 0


def test_every_mode_gives_the_same_tokens() -> None:
    """Layout, prefix cache and adaptive steps leave greedy answers equal, evictions included."""
    answers = {}
    for mode in build.MODES:
        sequences = [
            build.sequence(index, build.prompt(60 + 21 * index, salt=index), 40, mode=mode)
            for index in range(8)
        ]
        subject = build.engine(kv_tokens=1024)
        answers[mode] = build.run_dry(subject, sequences).tokens
    for index in range(8):  # a close call may go either way
        expected = answers[BASELINE][index]
        upto = build.first_close_call(build.prompt(60 + 21 * index, salt=index), expected)
        for mode in build.MODES:
            assert answers[mode][index][:upto] == expected[:upto]


@pytest.mark.parametrize("mode", build.MODES)
def test_sampled_tokens_do_not_depend_on_the_batch(mode: Mode) -> None:
    """A seeded request draws the same tokens alone and in company."""
    params = SamplingParams(temperature=0.9, top_p=0.95, presence=0.5, seed=7, ignore_eos=True)

    def subject(number: int) -> Sequence:
        return build.sequence(number, build.prompt(50), 30, mode=mode, params=params)

    alone = build.run_dry(build.engine(), [subject(0)]).tokens[0]
    company = [
        build.sequence(index, build.prompt(20 + 30 * index, salt=index), 25, mode=mode)
        for index in range(5)
    ]
    together = build.run_dry(build.engine(), [*company, subject(5)]).tokens[5]
    assert alone == together
    assert len(set(alone)) > 5


def test_eviction_keeps_what_was_generated() -> None:
    """An evicted sequence emits no token twice and ends with its exact length."""
    sequences = [build.sequence(index, build.prompt(100, salt=index), 60) for index in range(4)]
    subject = build.engine(kv_tokens=512)
    outcome = build.run_dry(subject, sequences)
    assert sum(end.n_evictions for end in outcome.ends.values()) > 0
    assert {len(tokens) for tokens in outcome.tokens.values()} == {60}
    assert {end.kv_tokens for end in outcome.ends.values()} == {160}


def test_a_sequence_alone_outgrows_half_the_arena() -> None:
    """A growth that does not fit beside the old range is paid for with a recomputation."""
    outcome = build.run_dry(build.engine(kv_tokens=512), [build.sequence(0, build.prompt(250), 20)])
    assert len(outcome.tokens[0]) == 20
    assert outcome.ends[0].n_evictions == 1


def test_the_engine_changes_hands_only_when_empty() -> None:
    """Sequences of another mode queue until the arena is empty, first come, first served."""
    subject = build.engine()
    modes = [BASELINE, build.PAGED, BASELINE, build.FULL, build.FULL]
    sequences = [
        build.sequence(index, build.prompt(30, salt=index), 5, mode=mode)
        for index, mode in enumerate(modes)
    ]
    outcome = build.run_dry(subject, sequences)
    order = [event.id for event in outcome.events]
    firsts = [order.index(number) for number in range(5)]
    lasts = [len(order) - 1 - order[::-1].index(number) for number in range(5)]
    assert lasts[0] < firsts[1] < lasts[1] < firsts[2] < lasts[2] < firsts[3]
    assert outcome.ends[1].account["queue"] > 0
    assert "kv_wait" not in outcome.ends[1].account


def test_reasoning_steps_have_exact_lengths_and_their_separators_are_context() -> None:
    """Each step yields its tokens as reasoning; separators are read, not emitted."""
    separator = (100, 101, 102)
    steps = tuple(Segment(kind="reasoning", n_tokens=7, forced=separator) for _ in range(3))
    subject = build.sequence(0, build.prompt(20), 9, steps=steps)
    outcome = build.run_dry(build.engine(), [subject])
    assert outcome.kinds[0] == ["reasoning"] * 21 + ["content"] * 9
    end = outcome.ends[0]
    assert [step["tokens"] for step in end.steps] == [7, 7, 7]
    assert [step["kv_tokens"] for step in end.steps] == [27, 37, 47]
    assert all(step["seconds"] > 0 for step in end.steps)
    assert end.kv_tokens == 20 + 3 * (7 + 3) + 9
    assert tuple(subject.tokens[27:30]) == separator


def test_reasoning_tokens_do_not_depend_on_eviction() -> None:
    """A reasoning loop that is evicted and recomputed gives the same tokens."""
    steps = tuple(Segment(kind="reasoning", n_tokens=30, forced=(100, 101)) for _ in range(2))

    def answers(kv_tokens: int) -> tuple[dict[int, list[int]], int]:
        sequences = [
            build.sequence(index, build.prompt(70, salt=index), 8, steps=steps)
            for index in range(4)
        ]
        subject = build.engine(kv_tokens=kv_tokens)
        return build.run_dry(subject, sequences).tokens, subject.scheduler.n_evictions

    roomy, no_evictions = answers(2560)
    tight, n_evictions = answers(512)
    assert no_evictions == 0
    assert n_evictions > 0
    assert roomy == tight


def test_the_account_of_every_sequence_has_no_gap() -> None:
    """Phases add up exactly to the time from hand-over to the end."""
    subject = build.engine(kv_tokens=256, max_num_seqs=3, max_num_batched_tokens=64)
    watch = Stopwatch(GcPauses())
    began = {}
    for index in range(6):
        each = build.sequence(index, build.prompt(90, salt=index), 10)
        each.charged_until_ns = began[index] = watch.last_ns
        subject.add(each)
    seen: set[str] = set()
    while subject.has_work:
        events = subject.step(watch)
        for end in events.ends:
            assert sum(end.account.values()) == events.until_ns - began[end.id]
            seen |= {phase for phase, duration_ns in end.account.items() if duration_ns > 0}
        watch.restart(events.until_ns)
    assert {"stall", "kv_wait", "attention", "ffn", "kv", "sample", "mask", "embed"} <= seen


def test_waiting_is_named_by_what_is_missing() -> None:
    """Without a slot it is `queue`; with a slot but no memory it is `kv_wait`."""
    long = [build.sequence(index, build.prompt(120), 30) for index in range(3)]
    memory = build.run_dry(build.engine(kv_tokens=256, max_num_seqs=8), long)
    assert memory.ends[2].account["kv_wait"] > 0
    assert memory.ends[2].account.get("queue", 0) == 0
    short = [build.sequence(index, build.prompt(20), 30) for index in range(3)]
    slots = build.run_dry(build.engine(max_num_seqs=1), short)
    assert slots.ends[2].account["queue"] > 0
    assert slots.ends[2].account.get("kv_wait", 0) == 0


def test_cancelling_frees_memory_before_the_next_step() -> None:
    """A cancelled sequence holds nothing afterwards, whether it ran or waited."""
    subject = build.engine(max_num_seqs=1)
    watch = Stopwatch(GcPauses())
    for index in range(2):
        subject.add(build.sequence(index, build.prompt(30), 50))
    subject.step(watch)
    assert subject.scheduler.n_held == 64
    subject.cancel(0)
    subject.cancel(1)
    subject.cancel(99)
    assert subject.scheduler.n_held == 0
    ends = subject.step(watch).ends
    assert [(end.id, end.reason) for end in ends] == [(0, "cancelled"), (1, "cancelled")]
    assert not subject.has_work


def test_a_stop_token_ends_an_answer_and_is_counted() -> None:
    """Drawing a stop token ends the answer as `stop`; the token itself counts."""
    fixed = build.run_dry(build.engine(), [build.sequence(0, build.prompt(12), 12)]).tokens[0]
    stop_id = fixed[5]
    subject = Engine(
        build.model(), ServerOptions(), max_model_len=2048, control_ids=[], stop_ids=[stop_id]
    )
    free = SamplingParams(temperature=0.0)
    outcome = build.run_dry(subject, [build.sequence(0, build.prompt(12), 12, params=free)])
    assert outcome.tokens[0] == fixed[: fixed.index(stop_id) + 1]
    assert outcome.ends[0].reason == "stop"


def test_end_and_control_tokens_cannot_be_drawn_where_the_length_is_prescribed() -> None:
    """Under `ignore_eos` a hot draw still yields its exact length and no special token."""
    sequences = []
    for index in range(16):
        hot = SamplingParams(temperature=2.0, seed=index, ignore_eos=True)
        sequences.append(build.sequence(index, build.prompt(12), 60, params=hot))
    tokens = build.run_dry(build.engine(max_num_seqs=16, kv_tokens=4096), sequences).tokens
    assert {len(drawn) for drawn in tokens.values()} == {60}
    special = {*build.stop_ids(), *build.control_ids()}
    assert not special & {token for drawn in tokens.values() for token in drawn}


@pytest.mark.parametrize("mode", build.PATHS)
def test_penalties_see_prompt_output_and_separators(mode: Mode) -> None:
    """Counts cover what was generated, the seen set also prompt and forced tokens."""
    params = SamplingParams(temperature=0.0, ignore_eos=True, frequency=2.0, repetition=1.5)
    steps = (Segment(kind="reasoning", n_tokens=4, forced=(200, 201)),)
    subject = build.sequence(0, build.prompt(10), 6, mode=mode, params=params, steps=steps)
    outcome = build.run_dry(build.engine(), [subject])
    state = subject.penalty_state
    assert state is not None
    assert state.n_generated == sum(map(state.count, set(outcome.tokens[0]))) == 10
    assert all(map(state.is_seen, [200, 201, *build.prompt(10)]))
    assert max(outcome.tokens[0].count(token) for token in outcome.tokens[0]) <= 2


def test_only_first_tokens_carry_an_account() -> None:
    """The account up to a token comes with the first four tokens, enough for any character."""
    outcome = build.run_dry(build.engine(), [build.sequence(0, build.prompt(10), 8)])
    assert [event.account is not None for event in outcome.events] == [True] * 4 + [False] * 4


def test_logprobs_are_the_model_s_own() -> None:
    """They are of the logits before bias, penalty and temperature, and only told where asked."""
    params = SamplingParams(
        temperature=1.7, top_k=30, frequency=1.5, seed=4, ignore_eos=True, n_logprobs=3
    )
    bare = SamplingParams(temperature=0.0, ignore_eos=True, n_logprobs=0)
    tokens = build.prompt(30)
    subject = build.engine()
    outcome = build.run_dry(
        subject,
        [
            build.sequence(0, tokens, 6, params=params),
            build.sequence(1, tokens, 6),
            build.sequence(2, tokens, 6, params=bare),
        ],
    )
    told = {number: [e.logprobs for e in outcome.events if e.id == number] for number in range(3)}
    assert told[1] == [None] * 6
    drawn = outcome.tokens[0]
    with torch.no_grad():
        expected = build.model()(torch.tensor([tokens + drawn]))[0, 29:-1].log_softmax(-1)
    for row, token_id, logprobs in zip(expected, drawn, told[0], strict=True):
        assert logprobs is not None
        assert logprobs[0] == pytest.approx(float(row[token_id]), abs=1e-3)
        top = row.topk(3)
        assert [value for _, value in logprobs[1]] == pytest.approx(top.values.tolist(), abs=1e-3)
        assert {one for one, _ in logprobs[1]} == set(top.indices.tolist())
    assert all(logprobs is not None and logprobs[1] == [] for logprobs in told[2])
    assert drawn != outcome.tokens[1]


@pytest.mark.parametrize("mode", build.MODES)
def test_a_cancelled_sequence_s_slot_is_taken_in_the_next_step(mode: Mode) -> None:
    """Whoever waits for slot or memory runs in the first step after the cancellation."""
    subject = build.engine(max_num_seqs=1, kv_tokens=256)
    watch = Stopwatch(GcPauses())
    for number in range(2):
        subject.add(build.sequence(number, build.prompt(200, salt=number), 20, mode=mode))
    subject.step(watch)
    watch.restart(watch.last_ns)
    subject.cancel(0)
    events = subject.step(watch)
    assert [(end.id, end.reason) for end in events.ends] == [(0, "cancelled")]
    assert [sequence.id for sequence in subject.scheduler.resident] == [1]
    assert subject.scheduler.resident[0].n_computed == 200
    assert subject.scheduler.check_integrity() == []


@pytest.mark.parametrize("mode", build.MODES)
def test_refused_allocations_lose_nothing(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """When every third allocation is refused at random, the books stay right and answers whole."""
    rng = np.random.default_rng(11)
    n_refused = 0

    def refusing(allocate: Callable[..., Any]) -> Callable[..., Any]:
        def try_allocate(*args: Any) -> Any:
            nonlocal n_refused
            if rng.random() < 1 / 3:
                n_refused += 1
                return None
            return allocate(*args)

        return try_allocate

    def answers() -> dict[int, list[int]]:
        sequences = [
            build.sequence(number, build.prompt(40 + 15 * number), 25, mode=mode)
            for number in range(4)
        ]
        subject = build.engine(kv_tokens=512)
        tokens = build.run_dry(subject, sequences).tokens
        assert subject.scheduler.n_held == 0
        return tokens

    undisturbed = answers()
    for allocator in (BlockManager, RangeAllocator):
        monkeypatch.setattr(allocator, "allocate", refusing(allocator.allocate))
    disturbed = answers()
    assert n_refused > 3
    for number, expected in undisturbed.items():
        upto = build.first_close_call(build.prompt(40 + 15 * number), expected)
        assert disturbed[number][:upto] == expected[:upto]
        assert len(disturbed[number]) == 25
