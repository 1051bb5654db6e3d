import numpy as np
import torch

from kernels.logprobs import FLOOR, measure_logprobs, reference_logprobs


def test_logprobs_are_those_of_the_reference() -> None:
    """Chosen and likeliest agree with log softmax in float64; the likeliest fall."""
    logits = torch.randn((5, 301), generator=torch.Generator().manual_seed(3)) * 4
    chosen = torch.tensor([0, 300, 7, 7, 12])
    measured = measure_logprobs(logits, chosen, 20)
    for row in range(5):
        expected = reference_logprobs(logits[row].double().numpy())
        order = np.argsort(-expected)[:20]
        assert measured.top_ids[row].tolist() == order.tolist()
        np.testing.assert_allclose(measured.top[row], expected[order], atol=2e-6)
        np.testing.assert_allclose(measured.chosen[row], expected[chosen[row]], atol=2e-6)


def test_no_infinity_is_told() -> None:
    """Impossible tokens, NaN and rows without a finite logit are told as the floor."""
    logits = torch.tensor([[0.0, -torch.inf, torch.nan], [-torch.inf] * 3])
    measured = measure_logprobs(logits, torch.tensor([1, 0]), 3)
    assert measured.chosen.tolist() == [FLOOR, FLOOR]
    assert measured.top[0].tolist() == [0.0, FLOOR, FLOOR]
    assert measured.top[1].tolist() == [FLOOR] * 3


def test_more_than_the_vocabulary_is_the_vocabulary() -> None:
    """Asking for more tokens than there are gives all."""
    assert measure_logprobs(torch.zeros((1, 4)), torch.tensor([0]), 20).top.shape == (1, 4)
    assert measure_logprobs(torch.zeros((1, 4)), torch.tensor([0]), 0).top.shape == (1, 0)
