import numpy as np
import pytest
import torch

from kernels import cpu
from kernels.backend import Backend, has_native, record_calls
from kernels.entropy import measure_entropy, reference_entropy
from kernels.sampling import build_settings, sample

native_only = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
each_backend = pytest.mark.parametrize("backend", ["torch", pytest.param("cpu", marks=native_only)])


@each_backend
@pytest.mark.parametrize("vocab_size", [1, 7, 1000, 40001])
@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_a_row_measures_as_the_reference(vocab_size: int, scale: float, backend: Backend) -> None:
    """Entropy, top mass and varentropy are the reference's, with impossible tokens among them."""
    logits = torch.randn((4, vocab_size), generator=torch.Generator().manual_seed(1)) * scale
    logits[1:3, 1::5] = -torch.inf
    logits[2:4, 2::7] = torch.nan
    with record_calls() as calls:
        measured = measure_entropy(logits, backend=backend)
    assert calls == [("entropy", backend)]
    for row, values in enumerate(zip(*measured, strict=True)):
        expected = reference_entropy(logits[row].nan_to_num(nan=-torch.inf).double().numpy())
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)


@each_backend
def test_worked_values(backend: Backend) -> None:
    """Equal tokens have ln n and no variance; two of 3/4 and 1/4 have the textbook's values."""
    logits = torch.full((2, 8), -torch.inf)
    logits[0] = 3.0
    logits[1, :2] = torch.log(torch.tensor([0.75, 0.25]))
    entropy, top_mass, varentropy = measure_entropy(logits, backend=backend)
    np.testing.assert_allclose(entropy, [np.log(8), 0.5623351446], rtol=1e-6)
    np.testing.assert_allclose(top_mass, [1 / 8, 0.75], rtol=1e-6)
    np.testing.assert_allclose(varentropy, [0.0, 0.1875 * np.log(3) ** 2], rtol=1e-6, atol=1e-12)


@each_backend
def test_rows_that_are_no_distribution(backend: Backend) -> None:
    """Nothing finite gives 0 mass, +inf gives all of it to one token."""
    logits = torch.tensor([[-torch.inf] * 3, [torch.nan] * 3, [0.0, torch.inf, torch.inf]])
    entropy, top_mass, varentropy = measure_entropy(logits, backend=backend)
    assert entropy.tolist() == [0.0] * 3
    assert top_mass.tolist() == [0.0, 0.0, 1.0]
    assert varentropy.tolist() == [0.0] * 3


@each_backend
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_a_draw_measures_the_same_and_draws_the_same(temperature: float, backend: Backend) -> None:
    """In the call that draws, entropy is that of the logits, and the tokens do not move."""
    logits = torch.randn((5, 3000), generator=torch.Generator().manual_seed(2)) * 2
    settings = build_settings(5, temperature=temperature, top_p=0.9, seed=range(5))
    draw = sample(logits, settings, with_entropy=True, backend=backend)
    assert draw.entropy is not None
    assert torch.equal(draw.token_ids, sample(logits, settings, backend=backend).token_ids)
    torch.testing.assert_close(draw.entropy, measure_entropy(logits, backend=backend))
