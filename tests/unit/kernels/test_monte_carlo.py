import importlib
import math

import numpy as np
import pytest
import torch
from scipy import stats

from kernels import cpu
from kernels.backend import BACKENDS, Backend, has_native, record_calls
from kernels.eager.monte_carlo import philox
from kernels.monte_carlo import (
    LAWS,
    Law,
    draw_monte_carlo,
    reference_monte_carlo,
    reference_philox,
)

AVAILABLE = [each for each in BACKENDS if each != "cpu" or has_native()]
both = pytest.mark.parametrize("backend", AVAILABLE)
native_only = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
BUILDS = cpu.ISAS[: cpu.ISAS.index(cpu.native.best_isa()) + 1] if has_native() else ()

# counter, key, output of philox4x32 with 10 rounds, from Random123's kat_vectors.
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
WORLD = {
    "uniform": stats.uniform(),
    "normal": stats.norm(),
    "exponential": stats.expon(),
    "gumbel": stats.gumbel_r(),
}


def draw(law: Law, n_rows: int, n_columns: int, backend: Backend, seed: int = 1) -> np.ndarray:
    """Rows 0, 1, ... by the backend that is asked for, and by no other."""
    with record_calls() as calls:
        drawn = draw_monte_carlo(law, torch.arange(n_rows), n_columns, seed=seed, backend=backend)
    assert calls == [("monte_carlo", backend)]
    return drawn.numpy()


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], output: tuple[int, ...]
) -> None:
    """Reference, torch and every native build give the published words."""
    assert reference_philox(counter, key) == output
    c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
    assert tuple(int(word) for word in philox((c0, c1, c2, c3), *key)) == output
    for isa in BUILDS:
        words = np.zeros(4, np.uint32)
        build = importlib.import_module(f"kernels.cpu._{isa}")
        build.philox_block(np.array([*counter, *key], np.uint32), words)
        assert tuple(words.tolist()) == output


@both
@pytest.mark.parametrize("law", LAWS)
def test_every_element_is_the_references(law: Law, backend: Backend) -> None:
    """Any seed, row and first column, ragged widths, location and scale."""
    rows = torch.tensor([0, 5, -3, 2**40 + 1])
    location, scale = torch.tensor([0.0, 0.5, -2.0, 1.0]), torch.tensor([1.0, 2.0, 0.3, 1.0])
    for seed, first in ((1, 0), (2**63 + 12345, 61), (-7, 2**36 + 17)):
        drawn = draw_monte_carlo(
            law,
            rows,
            150,
            seed=seed,
            location=location,
            scale=scale,
            first_column=first,
            backend=backend,
        )
        expected = [
            [
                reference_monte_carlo(
                    law, seed, int(row), first + column, location=float(at), scale=float(by)
                )
                for column in range(150)
            ]
            for row, at, by in zip(rows, location, scale, strict=True)
        ]
        np.testing.assert_allclose(drawn.numpy(), expected, rtol=2e-6, atol=3e-6)


@both
def test_uniforms_are_exact(backend: Backend) -> None:
    """They are dyadic: not a bit may differ from the reference."""
    drawn = draw("uniform", 3, 200, backend, seed=9)
    expected = [
        [reference_monte_carlo("uniform", 9, row, column) for column in range(200)]
        for row in range(3)
    ]
    assert (drawn == np.array(expected)).all()


@native_only
@pytest.mark.parametrize("law", LAWS)
def test_builds_give_the_same_bits(law: Law) -> None:
    """Nothing depends on the instruction set: sums and products have one order."""
    rows, ones = torch.arange(4), torch.ones(4)
    drawn = []
    for isa in BUILDS:
        result = torch.empty((4, 1001))
        build = importlib.import_module(f"kernels.cpu._{isa}")
        build.draw_monte_carlo(result, law, 3, rows, 5, ones, ones)
        drawn.append(result)
    assert all(torch.equal(drawn[0], each) for each in drawn)


@both
@pytest.mark.parametrize("law", LAWS)
def test_an_element_does_not_depend_on_its_batch(law: Law, backend: Backend) -> None:
    """Rows in any order and number, and columns in any pieces, give the same numbers."""
    whole = draw(law, 7, 300, backend)
    for row in (6, 2):
        alone = draw_monte_carlo(law, torch.tensor([row]), 300, seed=1, backend=backend)
        assert (alone.numpy()[0] == whole[row]).all()
    pieces = [
        draw_monte_carlo(
            law, torch.arange(7), end - begin, seed=1, first_column=begin, backend=backend
        )
        for begin, end in ((0, 3), (3, 70), (70, 64 * 3), (64 * 3, 300))
    ]
    assert (torch.cat(pieces, dim=1).numpy() == whole).all()


@both
@pytest.mark.parametrize("law", WORLD)
def test_the_law_holds(law: Law, backend: Backend) -> None:
    """Kolmogorov-Smirnov over 100,000 values does not reject at alpha = 1e-3 (seed fixed)."""
    values = draw(law, 50, 2000, backend, seed=20)
    assert stats.kstest(values.ravel(), WORLD[law].cdf).pvalue > 1e-3


@both
def test_the_sigmoid_law_is_logit_normal(backend: Backend) -> None:
    """Its logit is normal with the location and scale that were asked for."""
    drawn = draw_monte_carlo(
        "sigmoid_normal",
        torch.arange(20),
        2000,
        seed=4,
        location=0.3,
        scale=0.7,
        backend=backend,
    ).numpy()
    logits = np.log(drawn / (1 - drawn)).ravel()
    assert stats.kstest(logits, stats.norm(0.3, 0.7).cdf).pvalue > 1e-3


@both
def test_rows_columns_and_seeds_share_nothing(backend: Backend) -> None:
    """No number twice, and correlations of neighbouring rows, columns and seeds are noise's.

    Each correlation of n pairs is N(0, 1/n): the largest of those looked at stays below the bound
    of a Bonferroni test at alpha = 1e-3.
    """
    values = draw("normal", 64, 2048, backend, seed=30)
    # Two uniforms are 46 bits: among 65,536 pairs a chance repeat has probability 3e-5.
    uniforms = draw("uniform", 64, 2048, backend, seed=30).reshape(-1, 2)
    assert len(np.unique(uniforms, axis=0)) == len(uniforms)
    other = draw("normal", 64, 2048, backend, seed=31)
    by_row, by_column = np.corrcoef(values), np.corrcoef(values[:, :200].T)
    by_seed = [np.corrcoef(a, b)[0, 1] for a, b in zip(values, other, strict=True)]
    for found, n_pairs in (
        (by_row[np.triu_indices(64, 1)], 2048),
        (by_column[np.triu_indices(200, 1)], 64),
        (np.array(by_seed), 2048),
    ):
        # Fisher's transform is normal to a good approximation at 64 pairs as well.
        z = np.abs(np.arctanh(found)).max() * math.sqrt(n_pairs - 3)
        assert z < stats.norm.isf(0.5e-3 / found.size)


@both
def test_neighbouring_columns_fill_the_plane(backend: Backend) -> None:
    """Pairs of neighbours, and of the two normals of a pair, hit 16 x 16 cells evenly."""
    uniforms = stats.norm.cdf(draw("normal", 64, 2048, backend, seed=40))
    for step in (1, 16):
        cells = np.floor(uniforms * 16).astype(int).clip(0, 15)
        pairs = cells[:, :-step] * 16 + cells[:, step:]
        # A value takes part in one pair only.
        in_first_half = np.arange(2048 - step) // step % 2 == 0
        chosen = pairs[:, in_first_half]
        assert stats.chisquare(np.bincount(chosen.ravel(), minlength=256)).pvalue > 1e-4


@both
def test_tails_reach_far(backend: Backend) -> None:
    """Of half a million exponentials the smallest and the largest are where they should be."""
    values = draw("exponential", 250, 2000, backend, seed=50)
    n = values.size
    low, high = values.min() * n, values.max() - math.log(n)
    assert 5e-4 < low < 7.6  # minimum times n is exponential: alpha = 1e-3, both sides
    assert -2.03 < high < 7.6  # maximum minus ln n is Gumbel


@both
@pytest.mark.parametrize("law", LAWS)
def test_gradients_reach_location_and_scale(law: Law, backend: Backend) -> None:
    """They are those of the reference's formula, by central differences in float64."""
    location = torch.tensor([0.2, -0.4], requires_grad=True)
    scale = torch.tensor([1.5, 0.7], requires_grad=True)
    weight = np.linspace(-1, 1, 40)
    drawn = draw_monte_carlo(
        law, torch.arange(2), 40, seed=6, location=location, scale=scale, backend=backend
    )
    (drawn * torch.from_numpy(weight)).sum().backward()  # type: ignore[no-untyped-call]
    assert location.grad is not None
    assert scale.grad is not None

    def loss(row: int, at: float, by: float) -> float:
        values = [
            reference_monte_carlo(law, 6, row, column, location=at, scale=by)
            for column in range(40)
        ]
        return float(np.dot(values, weight))

    step = 1e-5
    for row in range(2):
        at, by = location[row].item(), scale[row].item()
        by_location = (loss(row, at + step, by) - loss(row, at - step, by)) / (2 * step)
        by_scale = (loss(row, at, by + step) - loss(row, at, by - step)) / (2 * step)
        assert float(location.grad[row]) == pytest.approx(by_location, rel=1e-4, abs=1e-4)
        assert float(scale.grad[row]) == pytest.approx(by_scale, rel=1e-4, abs=1e-4)


def test_bad_input_is_refused() -> None:
    """What came and what is allowed."""
    rows = torch.arange(2)
    with pytest.raises(ValueError, match="got law 'cauchy', allowed uniform, normal"):
        draw_monte_carlo("cauchy", rows, 3, seed=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"got rows \(2,\) of torch.float32, allowed \(n_rows,\)"):
        draw_monte_carlo("normal", rows.float(), 3, seed=1)
    with pytest.raises(ValueError, match="got -1 columns from 0"):
        draw_monte_carlo("normal", rows, -1, seed=1)
    with pytest.raises(ValueError, match=r"got scale of shape \(3,\), allowed a number or \(2,\)"):
        draw_monte_carlo("normal", rows, 3, seed=1, scale=torch.ones(3))
    assert draw_monte_carlo("normal", rows, 0, seed=1).shape == (2, 0)
