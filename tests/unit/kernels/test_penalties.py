import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels.penalties import apply_penalties, reference_penalties

VOCAB = 97


def both(
    logits: np.ndarray,
    prompts: list[list[int]],
    outputs: list[list[int]],
    strengths: list[tuple[float, float, float]],
) -> tuple[np.ndarray, np.ndarray]:
    """The same penalties by torch and by the reference."""
    seen = np.zeros(logits.shape, np.bool_)
    counts = np.zeros(logits.shape, np.float32)
    for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        seen[row, prompt] = True
        np.add.at(counts[row], output, 1)
    repetition, frequency, presence = (list(column) for column in zip(*strengths, strict=True))
    subject = torch.tensor(logits, dtype=torch.float32)
    returned = apply_penalties(
        subject,
        prompt_seen=torch.from_numpy(seen),
        output_counts=torch.from_numpy(counts),
        repetition=torch.tensor(repetition),
        frequency=torch.tensor(frequency),
        presence=torch.tensor(presence),
    )
    assert returned is subject
    expected = reference_penalties(
        subject.new_tensor(logits).numpy().astype(np.float64),
        prompt_ids=prompts,
        output_ids=outputs,
        repetition=repetition,
        frequency=frequency,
        presence=presence,
    )
    return subject.numpy(), expected


@pytest.mark.parametrize("seed", range(20))
def test_torch_agrees_with_the_reference(seed: int) -> None:
    """Random rows, ids and strengths give the reference's logits within float32 rounding."""
    rng = generator(seed, "penalties")
    logits = rng.normal(0, 5, (6, VOCAB)).astype(np.float32)
    prompts = [rng.integers(0, VOCAB, rng.integers(0, 40)).tolist() for _ in range(6)]
    outputs = [rng.integers(0, VOCAB // 3, rng.integers(0, 80)).tolist() for _ in range(6)]
    strengths = [
        (rng.uniform(0.1, 2.0), rng.uniform(-2.0, 2.0), rng.uniform(-2.0, 2.0)) for _ in range(6)
    ]
    actual, expected = both(logits, prompts, outputs, strengths)
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=3e-5)


def test_unseen_tokens_keep_their_bits() -> None:
    """A token that stands neither in prompt nor output is not touched at all."""
    logits = generator(1, "bits").normal(0, 5, (1, VOCAB)).astype(np.float32)
    actual, _ = both(logits, [[1, 2]], [[3, 3]], [(1.7, 0.9, 0.4)])
    untouched = [token for token in range(VOCAB) if token not in {1, 2, 3}]
    assert (actual[0, untouched] == logits[0, untouched]).all()
    assert (actual[0, [1, 2, 3]] != logits[0, [1, 2, 3]]).all()


@pytest.mark.parametrize(
    ("logit", "prompt", "output", "strength", "expected"),
    [
        (4.0, [0], [], (2.0, 1.0, 1.0), 2.0),  # the additive ones do not see the prompt
        (-4.0, [0], [], (2.0, 0.0, 0.0), -8.0),
        (0.0, [0], [], (2.0, 0.0, 0.0), 0.0),
        (4.0, [], [0, 0, 0], (1.0, 0.5, 0.25), 4.0 - 3 * 0.5 - 0.25),
        (4.0, [0], [0], (2.0, 1.0, 1.0), 4.0 / 2 - 1 - 1),  # repetition comes first, and once
        (4.0, [], [0], (1.0, -1.0, 0.0), 5.0),  # a negative penalty rewards
    ],
)
def test_worked_values(
    logit: float,
    prompt: list[int],
    output: list[int],
    strength: tuple[float, float, float],
    expected: float,
) -> None:
    """Torch and reference give the value worked out by hand."""
    logits = np.zeros((1, 3), np.float32)
    logits[0, 0] = logit
    actual, reference = both(logits, [prompt], [output], [strength])
    assert actual[0, 0] == pytest.approx(expected)
    assert reference[0, 0] == pytest.approx(expected)
