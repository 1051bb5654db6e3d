import math

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels.backend import BACKENDS, Backend, has_native, record_calls
from kernels.divergence import measure_divergence, reference_divergence, summarise

AVAILABLE = [each for each in BACKENDS if each != "cpu" or has_native()]
both = pytest.mark.parametrize("backend", AVAILABLE)
INF = math.inf


def logits(seed: int, n_rows: int, vocab: int, scale: float = 4.0) -> torch.Tensor:
    values = generator(seed, "divergence").normal(0, scale, (n_rows, vocab))
    return torch.from_numpy(values.astype(np.float32))


def table(first: torch.Tensor, second: torch.Tensor, backend: Backend) -> np.ndarray:
    """All four divergences by the backend that is asked for, and by no other."""
    with record_calls() as calls:
        found = measure_divergence(first, second, backend=backend)
    assert calls == [("divergence", backend)]
    return np.stack([each.numpy() for each in found])


@both
@pytest.mark.parametrize("vocab", [1, 2, 7, 1000, 4096])
@pytest.mark.parametrize("scale", [0.1, 4.0, 200.0])
def test_a_backend_gives_the_references_values(backend: Backend, vocab: int, scale: float) -> None:
    """Flat, ordinary and one-hot rows agree with plain float64 loops."""
    first, second = logits(1, 4, vocab, scale), logits(2, 4, vocab, scale)
    actual = table(first, second, backend)
    for row in range(4):
        expected = reference_divergence(first[row].double().numpy(), second[row].double().numpy())
        np.testing.assert_allclose(actual[:, row], expected, rtol=1e-9, atol=1e-14)


@both
def test_small_differences_are_not_lost(backend: Backend) -> None:
    """Logits that differ by 1e-6 give KL near its second-order value, not rounding noise."""
    first = logits(3, 1, 4096).double()
    change = torch.from_numpy(generator(4, "change").normal(0, 1e-6, (1, 4096)))
    p = torch.softmax(first, dim=-1)
    mean = (p * change).sum()
    second_order = float((p * (change - mean) ** 2).sum() / 2)
    kl, reverse_kl, js, _ = table(first, first + change, backend)[:, 0]
    assert kl == pytest.approx(second_order, rel=1e-3)
    assert reverse_kl == pytest.approx(second_order, rel=1e-3)
    assert js == pytest.approx(second_order / 4, rel=1e-3)


@both
def test_equal_rows_are_at_no_distance_and_shifts_say_nothing(backend: Backend) -> None:
    """The same logits give 0, and so do those with a constant added, excluded tokens or not."""
    first = logits(5, 2, 301)
    first[:, ::7] = -INF
    kl, reverse_kl, js, variation = table(first, first, backend)
    assert (kl == 0).all()
    assert (reverse_kl == 0).all()
    assert (variation == 0).all()
    assert js.max() < 1e-14
    assert table(first.double(), first.double() + 3.0, backend).max() < 1e-14


@both
def test_excluded_tokens(backend: Backend) -> None:
    """Half the mass on either side: KL is infinite, JS and variation are ln 2 and 1 at most."""
    first = torch.tensor([[0.0, 0.0, -INF], [0.0, -INF, -INF], [0.0, 0.0, -INF]])
    second = torch.tensor([[0.0, -INF, 0.0], [-INF, 0.0, -INF], [0.0, -INF, -INF]])
    kl, reverse_kl, js, variation = table(first, second, backend)
    assert kl.tolist() == [INF, INF, INF]
    assert reverse_kl.tolist() == [INF, INF, pytest.approx(math.log(2))]
    three = (0.5 * math.log(2 / 3) + 0.5 * math.log(2)) / 2 + math.log(4 / 3) / 2
    np.testing.assert_allclose(js, [math.log(2) / 2, math.log(2), three], rtol=1e-12)
    np.testing.assert_allclose(variation, [0.5, 1.0, 0.5], rtol=1e-12)


@both
def test_no_distribution_has_no_divergence(backend: Backend) -> None:
    """NaN, +inf and rows without a finite logit give NaN on either side; neighbours do not."""
    bad = torch.tensor([[0.0, math.nan], [0.0, INF], [-INF, -INF], [1.0, 0.0]])
    good = torch.zeros((4, 2))
    for pair in ((bad, good), (good, bad)):
        found = table(*pair, backend)
        assert np.isnan(found[:, :3]).all()
        assert np.isfinite(found[:, 3]).all()


@both
def test_strides_and_narrow_dtypes(backend: Backend) -> None:
    """Rows of a padded vocabulary, transposed tokens and bfloat16 give what a copy gives."""
    wide = logits(6, 5, 320)
    first, second = wide[:, :301], logits(7, 5, 301)
    expected = table(first.clone(), second, backend)
    assert (table(first, second, backend) == expected).all()
    assert (table(first.T.contiguous().T, second, backend) == expected).all()
    assert (table(first[:, ::3], second[:, ::3], backend) != 0).all()
    low = first.bfloat16()
    assert (table(low, second, backend) == table(low.float(), second, backend)).all()
    assert table(first[:0], second[:0], backend).shape == (4, 0)


def test_bfloat16_logits_stay_close() -> None:
    """Rounding logits to bfloat16 costs KL of 1e-4 on average for rows like the model's."""
    first = logits(8, 2000, 1000, 1.5)
    found = measure_divergence(first, first.bfloat16().float())
    assert 1e-7 < float(found.kl.mean()) < 1e-4


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ((2, 3), (2, 4), ValueError),
        ((2, 3), (3, 3), ValueError),
        ((3,), (3,), ValueError),
        ((2, 0), (2, 0), ValueError),
    ],
)
def test_shapes_are_checked(
    first: tuple[int, ...], second: tuple[int, ...], problem: type[Exception]
) -> None:
    """Shapes that do not go together are told, with what is allowed."""
    with pytest.raises(problem, match="allowed"):
        measure_divergence(torch.zeros(first), torch.zeros(second))


def test_whole_numbers_are_refused() -> None:
    """Integer logits are a mistake, not a distribution."""
    with pytest.raises(TypeError, match="floating"):
        measure_divergence(torch.zeros((1, 2), dtype=torch.int64), torch.zeros((1, 2)))


@pytest.mark.skipif(not has_native(), reason="no native kernels")
def test_the_kernel_checks_what_it_is_given() -> None:
    """Called past the dispatcher, it refuses strides, shapes and dtypes it cannot read."""
    from kernels.cpu import native

    rows, result = torch.zeros((2, 6)), torch.zeros((4, 2), dtype=torch.float64)
    for bad in (
        (rows[:, ::2], rows[:, :3], result),
        (rows, rows[:1], result),
        (rows, rows, result[:, :1].contiguous()),
        (rows[:, :0], rows[:, :0], result),
    ):
        with pytest.raises(ValueError, match="divergence"):
            native.measure_divergence(*bad)
    for bad in ((rows.half(), rows.half(), result), (rows, rows, result.float())):
        with pytest.raises(TypeError):
            native.measure_divergence(*bad)


def test_summary() -> None:
    """Mean, the 99.9 % quantile, the largest, and who passes; NaN and infinity are not hidden."""
    values = torch.arange(1, 2001).double()
    found = summarise(values, 500.0)
    assert found == (1000.5, 1998.0, 2000.0, 0.25)
    assert math.isnan(summarise(torch.tensor([0.0, math.nan]), 1.0).maximum)
    spoiled = summarise(torch.tensor([0.0, INF]), 1.0)
    assert (spoiled.mean, spoiled.maximum, spoiled.pass_rate) == (INF, INF, 0.5)
    with pytest.raises(ValueError, match="at least one"):
        summarise(torch.empty(0), 1.0)
