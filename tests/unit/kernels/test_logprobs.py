import numpy as np
import pytest
import torch

from kernels import cpu
from kernels.backend import Backend, has_native, record_calls
from kernels.logprobs import FLOOR, measure_logprobs, reference_logprobs

native_only = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
each_backend = pytest.mark.parametrize("backend", ["torch", pytest.param("cpu", marks=native_only)])


@each_backend
def test_logprobs_are_those_of_the_reference(backend: Backend) -> None:
    """Chosen and likeliest agree with log softmax in float64; the likeliest fall."""
    logits = torch.randn((5, 301), generator=torch.Generator().manual_seed(3)) * 4
    chosen = torch.tensor([0, 300, 7, 7, 12])
    with record_calls() as calls:
        measured = measure_logprobs(logits, chosen, 20, backend=backend)
    assert calls == [("logprobs", backend)]
    for row in range(5):
        expected = reference_logprobs(logits[row].double().numpy())
        order = np.argsort(-expected)[:20]
        assert measured.top_ids[row].tolist() == order.tolist()
        np.testing.assert_allclose(measured.top[row], expected[order], atol=2e-6)
        np.testing.assert_allclose(measured.chosen[row], expected[chosen[row]], atol=2e-6)


@each_backend
def test_no_infinity_is_told(backend: Backend) -> None:
    """Impossible tokens, NaN and rows without a finite logit are told as the floor."""
    logits = torch.tensor([[0.0, -torch.inf, torch.nan], [-torch.inf] * 3])
    measured = measure_logprobs(logits, torch.tensor([1, 0]), 3, backend=backend)
    assert measured.chosen.tolist() == [FLOOR, FLOOR]
    assert measured.top[0].tolist() == [0.0, FLOOR, FLOOR]
    assert measured.top[1].tolist() == [FLOOR] * 3


@each_backend
def test_more_than_the_vocabulary_is_the_vocabulary(backend: Backend) -> None:
    """Asking for more tokens than there are gives all."""
    for asked, told in ((20, 4), (0, 0)):
        row = torch.zeros((1, 4))
        measured = measure_logprobs(row, torch.tensor([0]), asked, backend=backend)
        assert measured.top.shape == (1, told)


@each_backend
def test_of_equal_tokens_the_lowest_id_is_told_first(backend: Backend) -> None:
    """A whole row of equals, and equals at the cut, come in the order of their ids."""
    logits = torch.zeros((2, 5000))
    logits[1, 4000:] = 1.0
    measured = measure_logprobs(logits, torch.tensor([0, 0]), 5, backend=backend)
    assert measured.top_ids.tolist() == [[0, 1, 2, 3, 4], [4000, 4001, 4002, 4003, 4004]]


@each_backend
def test_an_infinite_logit_has_all_the_mass(backend: Backend) -> None:
    """+inf is told as 0, two of them as half each, the others as the floor."""
    logits = torch.tensor([[0.0, torch.inf, 1.0], [torch.inf, 0.0, torch.inf]])
    measured = measure_logprobs(logits, torch.tensor([1, 2]), 3, backend=backend)
    np.testing.assert_allclose(measured.chosen, [0.0, -np.log(2)], rtol=1e-6)
    assert measured.top_ids.tolist() == [[1, 2, 0], [0, 2, 1]]
    assert measured.top[:, 2].tolist() == [FLOOR, FLOOR]


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_slice_of_a_padded_vocabulary_is_read_by_its_stride(
    backend: Backend, dtype: torch.dtype
) -> None:
    """Neither the padding nor the next row is seen; many more tokens than tiles can be told."""
    padded = torch.randn((3, 4128), generator=torch.Generator().manual_seed(5)).to(dtype)
    padded[:, 4099:] = 99.0
    chosen = torch.tensor([4098, 0, 7])
    measured = measure_logprobs(padded[:, :4099], chosen, 600, backend=backend)
    for row in range(3):
        expected = reference_logprobs(padded[row, :4099].double().numpy())
        order = np.argsort(-expected, kind="stable")[:600]
        assert measured.top_ids[row].tolist() == order.tolist()
        np.testing.assert_allclose(measured.top[row], expected[order], atol=2e-6)
        np.testing.assert_allclose(measured.chosen[row], expected[chosen[row]], atol=2e-6)


@native_only
def test_a_token_outside_the_vocabulary_is_refused() -> None:
    """An id that the row does not have is told, not read."""
    with pytest.raises(ValueError, match="token_ids: got 4, allowed 0 to 3"):
        measure_logprobs(torch.zeros((1, 4)), torch.tensor([4]), 1, backend="cpu")
