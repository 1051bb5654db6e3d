from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from harness.base.rng import generator
from kernels.sampling import (
    choose_greedy,
    exponential_noise,
    filter_logits,
    reference_noise,
    reference_probabilities,
    sample,
)

VOCAB = 64
OFF: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.4},
    {"temperature": 2.0},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": VOCAB},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"top_k": 20, "top_p": 0.8, "min_p": 0.02, "temperature": 0.7},
    {"top_k": 5, "top_p": 0.99, "temperature": 1.5},
]


def columns(settings: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Turn per-row settings into the tensors the kernel takes."""
    full = [OFF | setting for setting in settings]
    return {name: torch.tensor([row[name] for row in full]) for name in OFF}


def rows(seed: int, count: int, scale: float = 3.0) -> np.ndarray:
    return generator(seed, "logits").normal(0, scale, (count, VOCAB)).astype(np.float32)


@pytest.mark.parametrize("seed", range(10))
def test_filters_keep_what_the_reference_keeps(seed: int) -> None:
    """Kept sets and probabilities of mixed rows equal the float64 reference."""
    logits = rows(seed, len(SETTINGS))
    kept = filter_logits(torch.from_numpy(logits.copy()), **columns(SETTINGS))
    actual = torch.softmax(kept.to(torch.float64), dim=-1).numpy()
    for row, setting in enumerate(SETTINGS):
        expected = reference_probabilities(logits[row].astype(np.float64), **(OFF | setting))
        assert ((actual[row] > 0) == (expected > 0)).all(), setting
        np.testing.assert_allclose(actual[row], expected, rtol=2e-5)


def test_exactly_k_survive_a_tie_lowest_ids_first() -> None:
    """Equal logits at the cut do not let more than k through."""
    logits = torch.zeros((1, VOCAB))
    logits[0, 10] = 1.0
    kept = filter_logits(logits, **columns([{"top_k": 3}]))
    assert torch.isfinite(kept[0]).nonzero().flatten().tolist() == [0, 1, 10]


def test_top_p_takes_the_smallest_prefix() -> None:
    """Mass 0.5 + 0.3 reaches 0.8 with two tokens, 0.81 needs the third, 0.1 keeps one."""
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float32))
    for top_p, expected in ((0.79, [1, 2]), (0.81, [0, 1, 2]), (0.1, [1])):
        kept = filter_logits(logits.clone(), **columns([{"top_p": top_p}]))
        assert torch.isfinite(kept[0]).nonzero().flatten().tolist() == expected


def test_rows_without_filters_are_only_scaled() -> None:
    """Nothing is excluded from a row that asks for no filter, beside one that does."""
    logits = torch.from_numpy(rows(1, 2))
    kept = filter_logits(logits.clone(), **columns([{"temperature": 2.0}, {"top_k": 2}]))
    assert torch.equal(kept[0], logits[0] / 2)
    assert int(torch.isfinite(kept[1]).sum()) == 2


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    """Ties go to the lowest id; NaN is never chosen; a row without finite logits is flagged."""
    logits = torch.zeros((3, 5))
    logits[0, [2, 4]] = 1.0
    logits[1, 0] = torch.nan
    logits[2] = -torch.inf
    draw = choose_greedy(logits)
    assert draw.token_ids.tolist()[:2] == [2, 1]
    assert draw.is_faulty.tolist() == [False, False, True]


def test_noise_is_the_reference_noise() -> None:
    """The vectorised generator equals unbounded integer arithmetic, for any sign of the seed."""
    pairs = [(0, 0), (1, 5), (-1, 5), (2**63 - 1, 2000), (-(2**63), 1), (12345, 17)]
    noise = exponential_noise(
        torch.tensor([seed for seed, _ in pairs]), torch.tensor([at for _, at in pairs]), VOCAB
    )
    for row, (seed, position) in enumerate(pairs):
        np.testing.assert_allclose(
            noise[row].numpy(), reference_noise(seed, position, VOCAB), rtol=1e-12
        )


def test_noise_is_standard_exponential() -> None:
    """Kolmogorov-Smirnov over 1e5 values does not reject at alpha = 1e-3 (seed fixed)."""
    noise = exponential_noise(torch.arange(100), torch.arange(100), 1000)
    assert stats.kstest(noise.flatten().numpy(), "expon").pvalue > 1e-3
    columns_ = noise[:, :50].numpy()
    correlation = np.corrcoef(columns_.T)[np.triu_indices(50, 1)]
    assert abs(correlation.mean()) < 0.02


@pytest.mark.parametrize(
    "setting",
    [{}, {"temperature": 0.6, "top_p": 0.9}, {"top_k": 8}, {"temperature": 1.4, "min_p": 0.05}],
)
def test_draws_follow_the_reference_distribution(setting: dict[str, Any]) -> None:
    """Chi-square of 200,000 draws against the reference does not reject at alpha = 1e-4.

    The positions are the draws' only difference, so their independence is tested with it.
    """
    n_draws = 200_000
    logits = rows(5, 1, scale=1.5)
    expected = reference_probabilities(logits[0].astype(np.float64), **(OFF | setting))
    counts = np.zeros(VOCAB)
    for begin in range(0, n_draws, 20_000):
        draw = sample(
            torch.from_numpy(logits).expand(20_000, VOCAB),
            **{name: value.expand(20_000) for name, value in columns([setting]).items()},
            seeds=torch.full((20_000,), 99),
            positions=torch.arange(begin, begin + 20_000),
        )
        counts += np.bincount(draw.token_ids.numpy(), minlength=VOCAB)
    support = expected > 0
    assert counts[~support].sum() == 0
    rare = support & (expected * n_draws < 5)
    observed = np.append(counts[support & ~rare], counts[rare].sum())
    wanted = np.append(expected[support & ~rare], expected[rare].sum()) * n_draws
    keep = wanted > 0
    assert stats.chisquare(observed[keep], wanted[keep], sum_check=False).pvalue > 1e-4


def test_a_draw_equals_the_reference_race() -> None:
    """Token by token, the draw is the argmax of p / E with the reference's p and E."""
    n_rows = 200
    logits = rows(7, n_rows)
    settings = [SETTINGS[row % len(SETTINGS)] for row in range(n_rows)]
    draw = sample(
        torch.from_numpy(logits),
        **columns(settings),
        seeds=torch.arange(n_rows) * 7919 - 500,
        positions=torch.arange(n_rows) % 50,
    )
    for row in range(n_rows):
        expected = reference_probabilities(logits[row].astype(np.float64), **(OFF | settings[row]))
        race = expected / reference_noise(row * 7919 - 500, row % 50, VOCAB)
        assert draw.token_ids[row] == race.argmax()


def test_a_draw_does_not_depend_on_its_row() -> None:
    """The same request draws the same token in any slot of any batch."""
    logits = torch.from_numpy(rows(3, 9))
    settings = [{"top_p": 0.9}] * 9
    seeds, positions = torch.arange(9), torch.arange(9) * 3
    batch = sample(logits, **columns(settings), seeds=seeds, positions=positions).token_ids
    order = torch.tensor([4, 8, 0, 2, 6, 1, 3, 5, 7])
    shuffled = sample(
        logits[order], **columns(settings), seeds=seeds[order], positions=positions[order]
    ).token_ids
    assert torch.equal(batch[order], shuffled)


def test_a_row_without_finite_logits_is_flagged() -> None:
    """All -inf or NaN gives token 0 and the flag; its neighbours are not touched."""
    logits = torch.from_numpy(rows(3, 3))
    logits[1] = -torch.inf
    logits[2] = torch.nan
    draw = sample(
        logits, **columns([{}, {"top_k": 3}, {}]), seeds=torch.arange(3), positions=torch.arange(3)
    )
    assert draw.is_faulty.tolist() == [False, True, True]
    assert draw.token_ids[1:].tolist() == [0, 0]
