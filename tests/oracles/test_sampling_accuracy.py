"""Draws and kept sets of every build against the float64 reference.

The sizes here are reduced; `make accuracy` sets TAILBREAK_ACCURACY for the full ones.
"""

import os
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from harness.base.rng import generator
from kernels import cpu
from kernels.backend import Backend, record_calls
from kernels.eager.sampling import exponential_noise
from kernels.sampling import (
    OFF,
    build_settings,
    probabilities,
    reference_noise,
    reference_probabilities,
    sample,
)
from tests.kernel_builds import can_run, each_build, use

IS_FULL = bool(os.environ.get("TAILBREAK_ACCURACY"))
ALPHA = 1e-4
VOCABS = (7, 1000, 32000, 32768, 40001, 128256, 151936)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.8},
    {"top_p": 0.9},
    {"top_k": 50},
    {"top_k": 50, "top_p": 0.9, "temperature": 0.8},
    {"min_p": 0.02, "temperature": 1.5},
    {"typical_p": 0.8},
    {"depth": 4.0, "top_p": 0.97},
]


def make_row(kind: str, vocab_size: int, rng: np.random.Generator) -> np.ndarray:
    """One row of logits of a kind that has broken samplers."""
    row = rng.normal(0, rng.choice([0.01, 1.0, 4.0]), vocab_size)
    if kind == "grid":  # many ties
        row = np.round(row * 2) / 2
    if kind == "peaked":
        row[rng.integers(0, vocab_size, 64)] = rng.uniform(10, 16, 64)
    if kind == "one token holds half":
        row[rng.integers(vocab_size)] = np.log(np.exp(row).sum())
    if kind == "bfloat16":
        row = torch.tensor(row).bfloat16().double().numpy()
    if kind == "two values":
        row = np.where(np.arange(vocab_size) % 3 == 0, -1.0, 0.0)
    row[rng.random(vocab_size) < 0.01] = -np.inf
    row[rng.random(vocab_size) < 0.001] = np.nan
    row[rng.integers(vocab_size)] = 1.0
    return row.astype(np.float32)


KINDS = ("normal", "grid", "peaked", "one token holds half", "bfloat16", "two values")


def choose_setting(vocab_size: int, rng: np.random.Generator) -> dict[str, Any]:
    """Any mix of filters."""
    choices: dict[str, list[float]] = {
        "temperature": [0.5, 1.0, 1.7],
        "top_k": [0, 0, 0, 1, 5, 50, 300, 5000, vocab_size // 2 + 1],
        "min_p": [0.0, 0.0, 0.0, 0.1, 1e-3, 1e-5],
        "top_p": [1.0, 0.9, 0.5, 0.999, 0.05],
        "typical_p": [1.0, 1.0, 1.0, 0.9, 0.3],
        "depth": [np.inf, np.inf, 3.0, 0.5],
    }
    setting: dict[str, Any] = {name: rng.choice(values) for name, values in choices.items()}
    return setting | {"top_k": int(setting["top_k"])}


def is_at_the_cut(logits: np.ndarray, setting: dict[str, Any]) -> bool:
    """Whether a hair more or less mass would keep another set: rounding decides there."""
    kept = [
        reference_probabilities(
            logits,
            **setting
            | {
                name: min(setting[name] * (1 + hair), 1.0) if setting[name] < 1 else 1.0
                for name in ("top_p", "typical_p")
            },
        )
        > 0
        for hair in (-1e-6, 1e-6)
    ]
    return bool((kept[0] != kept[1]).any())


@each_build
@pytest.mark.parametrize("vocab_size", VOCABS)
def test_the_kept_set_is_the_references(
    vocab_size: int, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over kinds of rows, ties, bfloat16 and mixes of filters, set and probabilities are equal."""
    backend = use(build, monkeypatch)
    n_rows = 20_000 // len(VOCABS) if IS_FULL else 12 if build == "torch" else 36
    rng = generator(vocab_size, "kept")
    n_at_the_cut = 0
    for first in range(0, n_rows, 6):
        rows = np.stack([make_row(kind, vocab_size, rng) for kind in KINDS])
        settings = [choose_setting(vocab_size, rng) for _ in KINDS]
        columns = {name: [each[name] for each in settings] for name in OFF}
        with record_calls() as calls:
            actual = probabilities(
                torch.from_numpy(rows), build_settings(len(rows), **columns), backend=backend
            ).numpy()
        assert calls == [("probabilities", backend)]
        for row, setting, got in zip(rows.astype(np.float64), settings, actual, strict=True):
            expected = reference_probabilities(row, **setting)
            if ((got > 0) != (expected > 0)).any() and is_at_the_cut(row, setting):
                n_at_the_cut += 1
                continue
            assert ((got > 0) == (expected > 0)).all(), (first, setting)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-300)
    assert n_at_the_cut <= n_rows * 0.01


def count_draws(
    logits: np.ndarray, setting: dict[str, Any], n_draws: int, backend: Backend, seed: int = 99
) -> np.ndarray:
    """How often each token is drawn; the positions are the draws' only difference."""
    counts = np.zeros(len(logits), np.int64)
    batch = min(n_draws, 20_000 if backend == "cpu" else 4_000_000 // len(logits))
    rows = torch.from_numpy(logits).expand(batch, len(logits))
    settings = build_settings(batch, **setting, seed=seed)
    for first in range(0, n_draws, batch):
        settings["position"] = np.arange(first, first + batch)
        n = min(batch, n_draws - first)
        draw = sample(rows[:n], settings[:n], backend=backend)
        counts += np.bincount(draw.token_ids.numpy(), minlength=len(logits))
    return counts


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Give p of the counts; what is expected less than 5 times shares a bin."""
    wanted = expected * counts.sum()
    rare = wanted < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(wanted[~rare], wanted[rare].sum())
    told = wanted > 0
    assert observed[~told].sum() == 0
    return float(stats.chisquare(observed[told], wanted[told], sum_check=False).pvalue)


def n_draws_of(build: str) -> int:
    return 1_000_000 if IS_FULL else 15_000 if build == "torch" else 100_000


@each_build
def test_draws_follow_the_reference(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square of 8 settings, the least p corrected for being the least; none outside the set."""
    backend = use(build, monkeypatch)
    n_draws = n_draws_of(build)
    logits = generator(5, "logits").normal(0, 2, 500).astype(np.float32)
    p_values = []
    for setting in SETTINGS:
        expected = reference_probabilities(logits.astype(np.float64), **setting)
        counts = count_draws(logits, setting, n_draws, backend)
        assert counts[expected == 0].sum() == 0, setting
        p_values.append(chi_square(counts, expected))
    assert min(p_values) * len(SETTINGS) > ALPHA, p_values


def keep_as_printed(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """A nucleus sampler found in print: the mask of the sorted order, put on the unsorted logits.

    It also drops the token with which the mass is reached.
    """
    ordered = torch.sort(logits, descending=True).values
    mask = torch.softmax(ordered, dim=-1).cumsum(dim=-1) > top_p
    return logits.masked_fill(mask, -torch.inf)


def test_the_printed_nucleus_sampler_is_told_apart() -> None:
    """Kept set and chi-square, the checks that ours passes, refuse the printed sampler."""
    logits = generator(5, "logits").normal(0, 2, 500).astype(np.float32)
    expected = reference_probabilities(logits.astype(np.float64), top_p=0.9)
    kept = keep_as_printed(torch.from_numpy(logits), 0.9)
    assert ((kept > -torch.inf).numpy() != (expected > 0)).any()
    probability = torch.softmax(kept.double(), dim=-1).numpy()
    counts = generator(1, "printed").multinomial(40_000, probability)
    inside = expected > 0
    assert counts[~inside].sum() > 0
    within = np.where(inside, counts, 0)
    assert chi_square(within, expected) < 1e-12
    ordered = np.sort(logits)[::-1].copy()
    of_sorted = keep_as_printed(torch.from_numpy(ordered), 0.9) > -torch.inf
    own = reference_probabilities(ordered.astype(np.float64), top_p=0.9) > 0
    assert int(of_sorted.sum()) == own.sum() - 1  # sorted by luck, the crossing token is missing


@each_build
def test_every_token_can_be_drawn(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal tokens, each comes in 20 draws per token, and all equally often."""
    backend = use(build, monkeypatch)
    vocab_size = 152_000 if IS_FULL and build == "avx512" else 1000 if build == "torch" else 8000
    counts = count_draws(np.zeros(vocab_size, np.float32), {}, 20 * vocab_size, backend)
    assert (counts > 0).all()
    bucket = (np.arange(vocab_size, dtype=np.uint64) * np.uint64(0x9E3779B1)) % np.uint64(1024)
    sizes = np.bincount(bucket.astype(np.int64), minlength=1024)
    drawn = np.bincount(bucket.astype(np.int64), counts, minlength=1024)
    assert chi_square(drawn, sizes / vocab_size) > ALPHA


@each_build
@pytest.mark.parametrize("key", ["seed", "position"])
def test_neighbouring_streams_are_independent(
    key: str, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winners of a key and of the next one share no shift and no cell of a 16 x 16 table."""
    backend = use(build, monkeypatch)
    vocab_size = 256
    n_pairs = n_draws_of(build)
    table = np.zeros((vocab_size, vocab_size))
    rows = torch.zeros((1, vocab_size)).expand(min(n_pairs, 10_000), vocab_size)
    settings = build_settings(len(rows), seed=7, position=3)
    for first in range(0, n_pairs, len(rows)):
        winners = []
        for shift in (0, 1):
            settings[key] = 2 * np.arange(first, first + len(rows)) + shift
            winners.append(sample(rows, settings, backend=backend).token_ids.numpy())
        np.add.at(table, tuple(winners), 1)
    judge_pairs(table)


def judge_pairs(table: np.ndarray) -> None:
    """Test a table of pairs: neither the same, nor a neighbour, nor a cell of 16 x 16 too often."""
    size, n_pairs = len(table), int(table.sum())
    for shift in (-1, 0, 1):
        hits = int(sum(table[i, (i + shift) % size] for i in range(size)))
        assert stats.binomtest(hits, n_pairs, 1 / size).pvalue > ALPHA
    coarse = table.reshape(16, size // 16, 16, size // 16).sum(axis=(1, 3))
    assert stats.chi2_contingency(coarse).pvalue > ALPHA


@each_build
def test_neighbouring_tokens_are_independent(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal tokens the winner says nothing of who wins among the others, its neighbours first.

    The runner-up is the winner of the same draw without the first winner.
    """
    backend = use(build, monkeypatch)
    vocab_size = 256
    n_pairs = n_draws_of(build)
    table = np.zeros((vocab_size, vocab_size))
    n_rows = min(n_pairs, 10_000)
    settings = build_settings(n_rows, seed=11)
    for first in range(0, n_pairs, n_rows):
        settings["position"] = np.arange(first, first + n_rows)
        rows = torch.zeros((n_rows, vocab_size))
        winners = sample(rows, settings, backend=backend).token_ids
        rows[torch.arange(n_rows), winners.long()] = -torch.inf
        others = sample(rows, settings, backend=backend).token_ids
        np.add.at(table, (winners.numpy(), others.numpy()), 1)
    assert np.trace(table) == 0
    n_drawn = int(table.sum())
    for shift in (-1, 1):
        hits = int(sum(table[i, (i + shift) % vocab_size] for i in range(vocab_size)))
        assert stats.binomtest(hits, n_drawn, 1 / (vocab_size - 1)).pvalue > ALPHA
    distances = [table[np.arange(256), (np.arange(256) + d) % 256].sum() for d in range(1, 256)]
    assert stats.chisquare(distances).pvalue > ALPHA
    places = stats.chisquare(table.sum(axis=0)).pvalue, stats.chisquare(table.sum(axis=1)).pvalue
    assert min(places) > ALPHA / 2


def test_the_uniforms_are_uniform() -> None:
    """Kolmogorov-Smirnov of a million values: D is below the 0.1 % limit."""
    uniform = np.exp(-exponential_noise(torch.arange(1000), torch.arange(1000), 1000).numpy())
    assert stats.kstest(uniform.flatten(), "uniform").statistic < 0.00195
    correlation = np.corrcoef(uniform[:, :50].T)[np.triu_indices(50, 1)]
    assert abs(correlation.mean()) < 0.02


@each_build
def test_the_deep_tail_is_drawn(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tokens far down come as often as their mass says: about 33 times, 16 to 53."""
    backend = use(build, monkeypatch)
    if backend == "torch":
        n_tail, depth, n_rows = (262_144, 17.5, 5000) if IS_FULL else (4096, 12.0, 1300)
    elif IS_FULL:
        n_tail, depth, n_rows = 262_144, 20.5, 100_000
    else:  # as rare a token as float32 noise would lose, in fewer rows
        n_tail, depth, n_rows = 262_144, 17.5, 5000
    logits = np.full(n_tail + 1, -depth, np.float32)
    logits[0] = 0.0
    expected = n_tail * np.exp(-depth) * n_rows
    hits = n_rows - count_draws(logits, {}, n_rows, backend)[0]
    low, high = stats.poisson.interval(0.999, expected)
    assert low <= hits <= high


_WORD = 1 << 64
_GAMMA, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(word: int) -> int:
    """SplitMix64's finaliser."""
    word = ((word ^ (word >> 30)) * _MIX_1) % _WORD
    word = ((word ^ (word >> 27)) * _MIX_2) % _WORD
    return word ^ (word >> 31)


def unmix(word: int) -> int:
    """Undo `mix`, which is a bijection."""
    for shift, factor in ((31, _MIX_2), (27, _MIX_1), (30, 1)):
        undone = word
        for _ in range(64 // shift):
            undone = word ^ (undone >> shift)
        word = undone * pow(factor, -1, _WORD) % _WORD
    return word


def seed_of(bits: int, token: int, position: int) -> int:
    """Find the seed with which a token's 53 bits at a position are `bits`."""
    key = (unmix(bits << 11) - (token + 1) * _GAMMA) % _WORD
    seed = unmix(key) ^ mix((position * _GAMMA + _MIX_1) % _WORD)
    return seed - _WORD if seed >= _WORD // 2 else seed


@each_build
@pytest.mark.parametrize("bits", [0, 1, 2**52, 2**53 - 2, 2**53 - 1])
def test_extreme_noise_lets_nothing_masked_win(
    bits: int, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the smallest and the largest uniforms, noise is finite and the race the reference's."""
    backend = use(build, monkeypatch)
    token, position, vocab_size = 300, 11, 1000
    seed = seed_of(bits, token, position)
    noise = reference_noise(seed, position, vocab_size)
    assert np.isfinite(noise).all()
    assert (noise > 0).all()
    assert noise[token] == pytest.approx(-np.log(min((bits + 0.5) / 2**53, 1 - 2**-53)))
    own = exponential_noise(torch.tensor([seed]), torch.tensor([position]), vocab_size)
    np.testing.assert_allclose(own[0], noise, rtol=1e-12)
    for height in (-np.inf, -36.0, -30.0, 0.0, 30.0):
        logits = np.zeros(vocab_size, np.float32)
        logits[token] = height
        for setting in ({}, {"top_k": vocab_size - 1}, {"top_p": 0.9999}, {"min_p": 1e-20}):
            settings = build_settings(1, **setting, seed=seed, position=position)
            draw = sample(torch.from_numpy(logits)[None], settings, backend=backend)
            race = reference_probabilities(logits.astype(np.float64), **setting) / noise
            assert draw.token_ids[0] == race.argmax(), (height, setting)


@each_build
def test_a_draw_does_not_depend_on_its_batch(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request draws its token in any slot of 1 to 256, beside any batchmates."""
    backend = use(build, monkeypatch)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    rng = generator(3, "batch")
    vocab_size = 400 if backend == "torch" else 5003
    kinds = [KINDS[row % len(KINDS)] for row in range(64)]
    rows = torch.from_numpy(np.stack([make_row(kind, vocab_size, rng) for kind in kinds]))
    rows[:12:3] = torch.tensor([torch.nan, -torch.inf, torch.inf, 3e38])[:, None]
    mixed = [choose_setting(vocab_size, rng) for _ in range(64)]
    columns = {name: [each[name] for each in mixed] for name in OFF}
    settings = build_settings(64, **columns, seed=rng.integers(0, 1 << 60, 64), position=range(64))
    alone = [
        int(sample(rows[row : row + 1], settings[row : row + 1], backend=backend).token_ids)
        for row in range(64)
    ]
    for n_rows in (1, 7, 8, 9, 32, 256):
        order = rng.integers(0, 64, n_rows)
        draw = sample(rows[order], settings[order], backend=backend)
        assert draw.token_ids.tolist() == [alone[row] for row in order], n_rows
    torch.set_num_threads(n_threads)


def test_all_builds_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens, probabilities and entropies do not depend on the instruction set."""
    rng = generator(9, "bits")
    rows = torch.from_numpy(np.stack([make_row(kind, 40001, rng) for kind in KINDS]))
    told = []
    for build in filter(can_run, cpu.ISAS):
        backend = use(build, monkeypatch)
        settings = build_settings(len(rows), top_p=[0.9, 0.5, 0.9, 1.0, 0.99, 1.0], seed=range(6))
        draw = sample(rows, settings, with_entropy=True, backend=backend)
        assert draw.entropy is not None
        shares = probabilities(rows, settings, backend=backend)
        told.append(torch.cat([draw.token_ids.double(), *draw.entropy, shares.flatten()]))
    assert all(torch.equal(each, told[0]) for each in told)
