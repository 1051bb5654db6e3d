import importlib
import time
from types import ModuleType

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels import cpu
from kernels.backend import Backend, has_native, record_calls
from kernels.penalties import (
    Penalties,
    PenaltyState,
    apply_penalties,
    build_penalty_state,
    reference_penalties,
)

VOCAB = 97
RUN: tuple[Backend, ...] = ("torch", "cpu") if has_native() else ("torch",)
ISAS = cpu.ISAS[: cpu.ISAS.index(cpu.native.best_isa()) + 1] if has_native() else ()

every_backend = pytest.mark.parametrize("backend", RUN)


def build(
    penalties: Penalties, prompt: list[int], output: list[int], backend: Backend
) -> PenaltyState:
    """A state that has seen the prompt and accepted the output."""
    state = build_penalty_state(penalties, prompt, vocab_size=VOCAB, backend=backend)
    for token_id in output:
        state.accept(token_id)
    return state


def penalise(
    logits: list[float] | np.ndarray,
    penalties: Penalties,
    prompt: list[int],
    output: list[int],
    backend: Backend,
) -> np.ndarray:
    """One row penalised by a backend; what is not given is 1."""
    row = np.ones((1, VOCAB), np.float32)
    row[0, : len(logits)] = logits
    subject = torch.from_numpy(row)
    with record_calls() as calls:
        returned = apply_penalties(
            subject, [build(penalties, prompt, output, backend)], backend=backend
        )
    assert returned is subject
    assert calls == [("penalty_state", backend), ("penalties", backend)]
    return np.asarray(row[0])


def random_batch(
    seed: int, n_rows: int = 6
) -> tuple[np.ndarray, list[list[int]], list[list[int]], list[Penalties]]:
    """Rows, histories and strengths of every kind, windows and decays included."""
    rng = generator(seed, "penalties")
    logits = rng.normal(0, 5, (n_rows, VOCAB)).astype(np.float32)
    prompts = [rng.integers(0, VOCAB, rng.integers(0, 40)).tolist() for _ in range(n_rows)]
    outputs = [rng.integers(0, VOCAB // 3, rng.integers(0, 80)).tolist() for _ in range(n_rows)]
    penalties = [
        Penalties(
            repetition=rng.uniform(0.1, 2.0),
            frequency=rng.uniform(-2.0, 2.0),
            presence=rng.uniform(-2.0, 2.0),
            decay=rng.choice([0.0, 0.7, 0.95, 1.0, 1.3]),
            window=rng.choice([-1, 0, 1, 7, 32, 256]),
        )
        for _ in range(n_rows)
    ]
    return logits, prompts, outputs, penalties


@every_backend
@pytest.mark.parametrize("seed", range(30))
def test_a_backend_gives_the_reference_bit_for_bit(backend: Backend, seed: int) -> None:
    """Random rows give the stated order's float32 exactly, and the true value within rounding."""
    logits, prompts, outputs, penalties = random_batch(seed)
    subject = torch.tensor(logits)
    states = [build(*each, backend) for each in zip(penalties, prompts, outputs, strict=True)]
    apply_penalties(subject, states, backend=backend)
    exact, true = (
        reference_penalties(each, prompt_ids=prompts, output_ids=outputs, penalties=penalties)
        for each in (logits, logits.astype(np.float64))
    )
    assert (subject.numpy().view(np.int32) == exact.view(np.int32)).all()
    np.testing.assert_allclose(subject.numpy(), true, rtol=3e-6, atol=3e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_every_build_gives_the_reference_bit_for_bit(isa: str) -> None:
    """The portable, AVX2 and AVX-512 builds agree with the stated order."""
    native: ModuleType = importlib.import_module(f"kernels.cpu._{isa}")
    for seed in range(30):
        logits, prompts, outputs, penalties = random_batch(seed)
        expected = reference_penalties(
            logits, prompt_ids=prompts, output_ids=outputs, penalties=penalties
        )
        states = []
        for each, prompt, output in zip(penalties, prompts, outputs, strict=True):
            names = ("repetition", "frequency", "presence", "decay", "window")
            strengths = {name: getattr(each, name) for name in names}
            states.append(native.PenaltyState(prompt, vocab_size=VOCAB, **strengths))
            for token_id in output:
                states[-1].accept(token_id)
        native.penalise(logits, states)
        assert (logits.view(np.int32) == expected.view(np.int32)).all()


FULL = Penalties(repetition=2.0, frequency=1.0, presence=1.0)


@every_backend
@pytest.mark.parametrize(
    ("logit", "prompt", "output", "penalties", "expected"),
    [
        (4.0, [0], [], FULL, 2.0),  # the additive ones do not see the prompt
        (-4.0, [0], [], Penalties(repetition=2.0), -8.0),
        (0.0, [0], [], Penalties(repetition=2.0), 0.0),
        (-np.inf, [0], [0], FULL, -np.inf),  # what is banned stays banned
        (-np.inf, [0], [0], Penalties(frequency=-1e6, presence=-1e6), -np.inf),
        (4.0, [], [0, 0, 0], Penalties(frequency=0.5, presence=0.25), 4.0 - 3 * 0.5 - 0.25),
        (4.0, [0], [0], FULL, 4.0 / 2 - 1 - 1),  # repetition comes first
        (4.0, [0, 0], [0] * 80, Penalties(repetition=1.1), 4 / np.float32(1.1)),  # and once
        (4.0, [], [0], Penalties(frequency=-1.0), 5.0),  # a negative penalty rewards
        (4.0, [], [], Penalties(frequency=2.0, presence=2.0), 4.0),  # count 0 costs nothing
    ],
)
def test_worked_values(
    backend: Backend,
    logit: float,
    prompt: list[int],
    output: list[int],
    penalties: Penalties,
    expected: float,
) -> None:
    """Every backend and the reference give the value worked out by hand."""
    actual = penalise([logit], penalties, prompt, output, backend)
    reference = reference_penalties(
        np.array([[logit]]), prompt_ids=[prompt], output_ids=[output], penalties=[penalties]
    )
    assert actual[0] == pytest.approx(expected, rel=1e-7)
    assert reference[0, 0] == pytest.approx(expected, rel=1e-7)


@every_backend
@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("decay", [0.0, 0.7, 0.8, 0.95, 1.0 - 2.0**-23, 1.0, 1.05])
def test_a_decayed_penalty_is_a_geometric_sum(backend: Backend, decay: float, count: int) -> None:
    """It is alpha * (1 - beta^c) / (1 - beta), alpha * c at beta = 1, and nothing at c = 0."""
    alpha, beta = np.float32(0.1), float(np.float32(decay))
    actual = penalise([8.0], Penalties(frequency=0.1, decay=decay), [], [0] * count, backend)[0]
    if beta == 0:
        total = float(count > 0)
    elif beta == 1:
        total = float(count)
    else:
        total = -np.expm1(count * np.log(beta)) / (1 - beta)
    assert actual == np.float32(8.0) - np.float32(float(alpha) * total)


@every_backend
@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflowing_decay_stops_at_the_largest_number(backend: Backend, sign: int) -> None:
    """Where beta^c overflows the logit is the most extreme finite number, and never NaN."""
    penalties = Penalties(frequency=0.5 * sign, decay=1e6)
    actual = penalise([1.0, -np.inf], penalties, [], [0] * 300 + [1] * 300, backend)
    assert actual[0] == -sign * np.finfo(np.float32).max
    assert actual[1] == -np.inf
    assert penalise([1.0], Penalties(decay=1e6), [], [0] * 300, backend)[0] == 1.0


@every_backend
def test_a_bounded_decay_never_exceeds_its_limit(backend: Backend) -> None:
    """At beta = 0.8 a thousand repeats cost five times the first and no more."""
    actual = penalise([0.0], Penalties(frequency=0.1, decay=0.8), [], [0] * 1000, backend)[0]
    assert actual == pytest.approx(-0.5, rel=1e-6)


@every_backend
def test_unseen_tokens_keep_their_bits(backend: Backend) -> None:
    """A token that was never seen is not touched at all: sign of zero, NaN and infinities stay."""
    logits = generator(1, "bits").normal(0, 5, VOCAB).astype(np.float32)
    logits[10:14] = [-0.0, np.nan, np.inf, -np.inf]
    actual = penalise(logits, Penalties(repetition=1.7, frequency=-0.9), [1, 2], [3, 3], backend)
    unseen = np.setdiff1d(np.arange(VOCAB), [1, 2, 3])
    assert (actual.view(np.int32)[unseen] == logits.view(np.int32)[unseen]).all()
    assert (actual[[1, 2, 3]] != logits[[1, 2, 3]]).all()


@every_backend
def test_a_prompt_only_token_has_no_additive_penalty(backend: Backend) -> None:
    """Frequency and presence leave what stands in the prompt alone as it is."""
    actual = penalise([], Penalties(frequency=2.0, presence=2.0), [4, 5, 5], [6], backend)
    assert actual[4] == actual[5] == 1.0
    assert actual[6] == -3.0


@every_backend
def test_neighbours_and_rows_without_penalties_are_untouched(backend: Backend) -> None:
    """Each row is penalised by its own state only, whoever stands beside it."""
    logits = generator(2, "rows").normal(0, 5, (5, VOCAB)).astype(np.float32)
    alone = penalise(logits[2], FULL, [1], [2, 3], backend)
    subject = torch.tensor(logits)
    states = [None, build(FULL, [7], [8], backend), build(FULL, [1], [2, 3], backend), None, None]
    apply_penalties(subject, states, backend=backend)
    assert (subject.numpy()[[0, 3, 4]].view(np.int32) == logits[[0, 3, 4]].view(np.int32)).all()
    assert (subject.numpy()[2] == alone).all()
    assert np.flatnonzero(subject.numpy()[1] != logits[1]).tolist() == [7, 8]


@every_backend
def test_a_padded_vocabulary_is_penalised_in_place_and_its_padding_is_not(backend: Backend) -> None:
    """Rows that lie apart in a wider matrix work; what lies between them stays."""
    wide = torch.full((3, VOCAB + 7), 4.0)
    states = [build(FULL, [0], [VOCAB - 1], backend) for _ in range(3)]
    apply_penalties(wide[:, :VOCAB], states, backend=backend)
    expected = np.full((3, VOCAB + 7), 4.0)
    expected[:, [0, VOCAB - 1]] = [2.0, 0.0]
    assert (wide.numpy() == expected).all()


@every_backend
def test_the_window_holds_the_last_tokens(backend: Backend) -> None:
    """With a window of W the counts are those of the last W generated tokens, not the first."""
    rng = generator(3, "window")
    output = rng.integers(0, 9, 200).tolist()
    for window in (1, 2, 7, 64, 199, 200, 201):
        state = build(Penalties(frequency=1.0, window=window), [90], [], backend)
        for place, token_id in enumerate(output):
            state.accept(token_id)
            last = output[max(0, place + 1 - window) : place + 1]
            assert [state.count(each) for each in range(9)] == [last.count(e) for e in range(9)]
        assert state.is_seen(90)
        assert state.n_generated == 200


@every_backend
def test_window_zero_is_off_and_minus_one_is_the_whole_history(backend: Backend) -> None:
    """0 switches every penalty off, the prompt's too; -1 forgets nothing."""
    off = penalise(
        [4.0, 4.0], Penalties(repetition=2.0, frequency=1.0, window=0), [0], [1], backend
    )
    assert off[:2].tolist() == [4.0, 4.0]
    whole = penalise([4.0], Penalties(frequency=1.0, window=-1), [], [0, *range(1, 90)], backend)
    assert whole[0] == 3.0


@every_backend
@pytest.mark.parametrize("window", [-1, 0, 1, 5, 40])
def test_rollback_is_as_if_never_drawn(backend: Backend, window: int) -> None:
    """After taking back n tokens the state equals one that never accepted them."""
    rng = generator(4, "rollback")
    subject = build(Penalties(frequency=1.0, window=window), [1, 2], [], backend)
    kept: list[int] = []
    for _ in range(300):
        drafts = rng.integers(0, 30, rng.integers(0, 6)).tolist()
        for token_id in drafts:
            subject.accept(token_id)
        n_back = int(rng.integers(0, len(drafts) + 1))
        subject.rollback(n_back)
        kept += drafts[: len(drafts) - n_back]
        fresh = build(Penalties(frequency=1.0, window=window), [1, 2], kept, backend)
        tokens = range(30)
        assert subject.n_generated == len(kept)
        assert [*map(subject.count, tokens)] == [*map(fresh.count, tokens)]
        assert [*map(subject.is_seen, tokens)] == [*map(fresh.is_seen, tokens)]


@every_backend
def test_a_bad_argument_is_refused_with_what_is_allowed(backend: Backend) -> None:
    """Ids, windows, rows, types and strides outside of the contract never reach the logits."""
    state = build(FULL, [], [], backend)
    good = torch.ones((1, VOCAB))
    for bad in (-1, VOCAB, 1 << 40):
        with pytest.raises(ValueError, match=f"token id: got {bad}, allowed 0 to 96"):
            state.accept(bad)
        with pytest.raises(ValueError, match=f"token id: got {bad}, allowed 0 to 96"):
            state.see([0, bad])
    with pytest.raises(ValueError, match="n_tokens: got 1, allowed 0 to 0"):
        state.rollback(1)
    with pytest.raises(ValueError, match="n_tokens: got -1, allowed 0 to 0"):
        state.rollback(-1)
    cases: list[tuple[torch.Tensor, list[PenaltyState | None], str]] = [
        (good, [], "states: got 0, allowed one .or None. for each of the 1 rows"),
        (torch.ones((1, 96)), [state], "states: got one of vocab_size 97, allowed the logits' 96"),
        (good[0], [state], "logits: got .*1 axes, allowed"),
        (good.double(), [state], "logits: got .*, allowed float32"),
        (good.to(torch.bfloat16), [state], "logits: got .*, allowed float32"),
    ]
    if backend == "cpu":
        cases += [
            (torch.ones((VOCAB, 2)).T, [state, None], "logits: got a column stride of 2, allowed"),
            (good.expand(2, VOCAB), [state, None], "logits: got rows that overlap"),
        ]
    for logits, states, message in cases:
        with pytest.raises(ValueError, match=message):
            apply_penalties(logits, states, backend=backend)
    assert not state.is_seen(0)
    assert (good == 1).all()


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_a_state_of_another_backend_is_refused() -> None:
    """A state cannot be used by a backend that did not make it."""
    pairs: list[tuple[Backend, Backend]] = [("cpu", "torch"), ("torch", "cpu")]
    for mine, other in pairs:
        with pytest.raises(ValueError, match="states: got one of another backend"):
            apply_penalties(torch.ones((1, VOCAB)), [build(FULL, [], [], other)], backend=mine)


@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        ({"repetition": 0.0}, "repetition: got 0.0, allowed 1e-06 to"),
        ({"frequency": float("nan")}, "frequency: got nan, allowed -1e.06 to"),
        ({"presence": float("inf")}, "presence: got inf"),
        ({"decay": -0.1}, "decay: got -0.1, allowed 0 to"),
        ({"window": -2}, "window: got -2, allowed -1 .all., 0 .off. or more"),
    ],
)
def test_a_bad_strength_is_refused(strengths: dict[str, float], message: str) -> None:
    """What could make a NaN or has no meaning is named with its range."""
    with pytest.raises(ValueError, match=message):
        Penalties(**strengths)  # type: ignore[arg-type]


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_a_thousand_states_fit_in_64_mb_whatever_the_vocabulary() -> None:
    """1,024 requests of 2,048 + 2,048 tokens, no two of one request alike, at V = 152k."""
    rng = generator(5, "memory")
    total = 0
    for _ in range(1024):
        ids = rng.choice(152_000, 4096, replace=False).tolist()
        state = build_penalty_state(FULL, ids[:2048], vocab_size=152_000, backend="cpu")
        for token_id in ids[2048:]:
            state.accept(token_id)
        assert all(map(state.is_seen, ids[::97]))
        total += state.n_bytes
    assert total < 64e6
    dense = build_penalty_state(FULL, [], vocab_size=152_000, backend="torch")
    assert total < 1024 * dense.n_bytes / 10


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_a_window_s_table_does_not_grow_with_the_history() -> None:
    """After a hundred thousand distinct tokens a window of 64 holds what 64 tokens need."""
    state = build_penalty_state(
        Penalties(frequency=1.0, window=64), [], vocab_size=152_000, backend="cpu"
    )
    n_bytes = []
    for token_id in range(100_000):
        state.accept(token_id)
        n_bytes.append(state.n_bytes)
    # What is left to grow is the history itself, four bytes a token and its spare room.
    assert n_bytes[-1] - n_bytes[999] <= 8 * 100_000
    assert max(n_bytes[:1000]) < 16_000


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_accepting_a_token_costs_the_same_after_any_history() -> None:
    """10,000 tokens after 500,000 cost as 10,000 after 5,000: no step walks through the history."""
    tokens = generator(6, "cost").integers(0, 3000, 10_000).tolist()
    for window in (-1, 64):
        costs = []
        for n_before in (5_000, 500_000):
            state = build_penalty_state(
                Penalties(frequency=1.0, window=window), [], vocab_size=3000, backend="cpu"
            )
            for place in range(n_before):
                state.accept(place % 3000)
            costs.append(min(_seconds(state, tokens) for _ in range(7)))
        assert costs[1] < 4 * costs[0]


def _seconds(state: PenaltyState, tokens: list[int]) -> float:
    """Processor time of accepting the tokens and taking them back."""
    began = time.process_time()
    for token_id in tokens:
        state.accept(token_id)
    state.rollback(len(tokens))
    return time.process_time() - began


@pytest.mark.parametrize("count", [0, 1, 2, 10, 50])
@pytest.mark.parametrize("decay", [0.7, 0.8, 0.95])
def test_the_slopes_of_a_decayed_penalty_are_bounded(decay: float, count: int) -> None:
    """They are at most 1 / (1 - d) in f and f / (1 - d)^2 in d, and 0 at c = 0."""

    def penalty(frequency: float, decay: float) -> float:
        penalties = Penalties(frequency=frequency, decay=decay)
        zeros = np.zeros((1, 1))
        return -reference_penalties(
            zeros, prompt_ids=[[]], output_ids=[[0] * count], penalties=[penalties]
        ).item()

    step = 1e-6
    by_frequency = (penalty(0.1 + step, decay) - penalty(0.1 - step, decay)) / (2 * step)
    by_decay = (penalty(0.1, decay + step) - penalty(0.1, decay - step)) / (2 * step)
    total = (1 - decay**count) / (1 - decay)
    assert by_frequency == pytest.approx(total, rel=1e-6)
    assert by_decay == pytest.approx(
        0.1 * sum(place * decay ** (place - 1) for place in range(1, count)), rel=1e-6, abs=1e-9
    )
    assert 0 <= by_frequency <= 1 / (1 - decay)
    assert 0 <= by_decay + 1e-9 <= 0.1 / (1 - decay) ** 2
