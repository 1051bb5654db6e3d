from typing import Any

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels import cpu
from kernels.backend import Backend, has_native, record_calls
from kernels.eager.sampling import exponential_noise
from kernels.sampling import (
    OFF,
    build_settings,
    filter_logits,
    probabilities,
    reference_noise,
    reference_probabilities,
    sample,
)

VOCAB = 64
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.4},
    {"temperature": 2.0},
    {"temperature": 0.0, "top_k": 9},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": -1},
    {"top_k": VOCAB},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"typical_p": 0.9},
    {"typical_p": 0.2, "temperature": 0.5},
    {"depth": 2.0, "temperature": 1.5},
    {"depth": 0.0},
    {"top_k": 20, "top_p": 0.8, "min_p": 0.02, "temperature": 0.7},
    {"top_k": 20, "top_p": 0.95, "typical_p": 0.8, "depth": 1.0},
]

native_only = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
each_backend = pytest.mark.parametrize("backend", ["torch", pytest.param("cpu", marks=native_only)])


def rows(seed: int, count: int, scale: float = 3.0, vocab_size: int = VOCAB) -> np.ndarray:
    """Random logits."""
    return generator(seed, "logits").normal(0, scale, (count, vocab_size)).astype(np.float32)


def build(settings: list[dict[str, Any]], **columns: Any) -> np.ndarray:
    """One record for each row."""
    full = [OFF | setting for setting in settings]
    named = {name: [row[name] for row in full] for name in OFF}
    return build_settings(len(settings), **named, **columns)


def keep(logits: torch.Tensor, backend: Backend, **setting: Any) -> list[int]:
    """Ids that a row of logits keeps."""
    (row,) = probabilities(logits[None], build([setting]), backend=backend)
    return [int(token) for token in row.nonzero().flatten()]


@each_backend
@pytest.mark.parametrize("seed", range(10))
def test_a_row_keeps_what_the_reference_keeps(seed: int, backend: Backend) -> None:
    """Kept sets and probabilities of mixed rows equal the float64 reference."""
    logits = rows(seed, len(SETTINGS))
    with record_calls() as calls:
        actual = probabilities(torch.from_numpy(logits), build(SETTINGS), backend=backend).numpy()
    assert calls == [("probabilities", backend)]
    for row, setting in enumerate(SETTINGS):
        expected = reference_probabilities(logits[row].astype(np.float64), **setting)
        assert ((actual[row] > 0) == (expected > 0)).all(), setting
        np.testing.assert_allclose(actual[row], expected, rtol=1e-9)


@each_backend
def test_exactly_k_survive_a_tie_lowest_ids_first(backend: Backend) -> None:
    """Equal logits at the cut do not let more than k through."""
    logits = torch.zeros(VOCAB)
    logits[10] = 1.0
    assert keep(logits, backend, top_k=3) == [0, 1, 10]


@each_backend
def test_top_p_takes_the_smallest_prefix(backend: Backend) -> None:
    """Mass 0.5 + 0.3 reaches 0.8 with two tokens, 0.81 needs the third, 0.1 keeps one."""
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3]))
    for top_p, expected in ((0.79, [1, 2]), (0.81, [0, 1, 2]), (0.1, [1])):
        assert keep(logits, backend, top_p=top_p) == expected


@each_backend
def test_a_depth_is_a_min_p(backend: Backend) -> None:
    """A clip at D nats keeps what min-p exp(-D) keeps, with the same probabilities."""
    logits = torch.from_numpy(rows(5, 6))
    for depth in (0.0, 0.5, 3.0, 9.0):
        clipped = probabilities(logits, build([{"depth": depth}] * 6), backend=backend)
        cut = probabilities(logits, build([{"min_p": np.exp(-depth)}] * 6), backend=backend)
        assert torch.equal(clipped, cut)
        assert bool((clipped.gather(1, logits.argmax(1)[:, None]) > 0).all())


@each_backend
@pytest.mark.parametrize("top_k", [0, 4])
@pytest.mark.parametrize("setting", [{"min_p": float(np.exp(-1.0))}, {"depth": 1.0}])
def test_a_token_exactly_at_the_limit_is_kept(
    setting: dict[str, float], top_k: int, backend: Backend
) -> None:
    """At least min-p, at most `depth` nats below: a height of just that stays, the next falls."""
    logits = torch.tensor([0.0, -0.5, -1.0, np.nextafter(np.float32(-1.0), np.float32(-2.0)), -9.0])
    assert np.log(np.exp(-1.0)) == -1.0
    assert keep(logits, backend, top_k=top_k, **setting) == [0, 1, 2]
    assert keep(logits, backend, top_k=top_k, temperature=0.5, **setting) == [0, 1]


@each_backend
def test_the_filtered_logits_have_the_probabilities(backend: Backend) -> None:
    """Softmax of what `filter_logits` gives is what `probabilities` gives."""
    logits, settings = torch.from_numpy(rows(6, len(SETTINGS))), build(SETTINGS)
    softmax = torch.softmax(filter_logits(logits, settings, backend=backend), dim=-1)
    torch.testing.assert_close(softmax, probabilities(logits, settings, backend=backend))


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


@each_backend
def test_a_draw_equals_the_reference_race(backend: Backend) -> None:
    """Token by token, the draw is the argmax of p / E with the reference's p and E."""
    n_rows = 400
    logits = rows(7, n_rows)
    settings = [SETTINGS[row % len(SETTINGS)] for row in range(n_rows)]
    seeds, positions = np.arange(n_rows) * 7919 - 500, np.arange(n_rows) % 50
    records = build(settings, seed=seeds, position=positions)
    with record_calls() as calls:
        draw = sample(torch.from_numpy(logits), records, backend=backend)
    assert calls == [("sampling", backend)]
    for row in range(n_rows):
        expected = reference_probabilities(logits[row].astype(np.float64), **settings[row])
        race = expected / reference_noise(int(seeds[row]), int(positions[row]), VOCAB)
        assert draw.token_ids[row] == race.argmax(), settings[row]


@each_backend
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -1.0, "0 or more"),
        ("temperature", np.nan, "0 or more"),
        ("top_p", 0.0, "above 0 to 1"),
        ("top_p", 1.5, "above 0 to 1"),
        ("min_p", -0.1, "0 to 1"),
        ("typical_p", 0.0, "above 0 to 1"),
        ("depth", -1.0, "0 or more"),
    ],
)
def test_a_setting_out_of_range_is_refused(
    name: str, value: float, allowed: str, backend: Backend
) -> None:
    """Nothing is read as "off" that was not said so: row, name, value and range are told."""
    settings = build([{}, {name: value}])
    with pytest.raises(ValueError, match=f"row 1: {name}: got .*allowed {allowed}"):
        sample(torch.zeros((2, 5)), settings, backend=backend)


@each_backend
def test_arrays_that_do_not_go_together_are_refused(backend: Backend) -> None:
    """Another number of rows, a vector, and plain numbers for records are errors that say so."""
    with pytest.raises(ValueError, match="settings: got 3 rows, allowed 2"):
        sample(torch.zeros((2, 5)), build_settings(3), backend=backend)
    with pytest.raises(ValueError, match="logits: got 1 axes, allowed 2"):
        sample(torch.zeros(5), build_settings(5), backend=backend)
    with pytest.raises(ValueError, match="settings: got float64 of shape"):
        sample(torch.zeros((2, 5)), np.zeros(2), backend=backend)  # type: ignore[arg-type]
