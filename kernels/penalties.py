"""Sampling penalties: what makes a model repeat itself less.

Contract, the eager torch implementation (dense counts, one row per sequence) and the float64
reference. The order is repetition, then frequency, then presence; it does not commute.
Repetition counts prompt and output, the additive penalties count the output only, and a token that
was never seen keeps its logit bit for bit.
Source: Keskar et al., CTRL, section 4.1 (repetition); the OpenAI parameter page (additive).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def apply_penalties(
    logits: Tensor,
    *,
    prompt_seen: Tensor,
    output_counts: Tensor,
    repetition: Tensor,
    frequency: Tensor,
    presence: Tensor,
) -> Tensor:
    """Penalise `logits` in place and return them.

    With c = output count of a token and s = whether it stands in prompt or output:
    `x = x / r if x > 0 else x * r` where s, then `x = x - f * c - p * [c > 0]`.

    Shapes: logits (n_seqs, vocab_size) float32; prompt_seen (n_seqs, vocab_size) bool;
        output_counts (n_seqs, vocab_size) float32; the strengths (n_seqs,) float32.
    """
    was_generated = output_counts > 0
    seen = prompt_seen | was_generated
    strength = repetition[:, None]
    scaled = torch.where(logits > 0, logits / strength, logits * strength)
    logits.copy_(torch.where(seen, scaled, logits))
    logits.sub_(frequency[:, None] * output_counts)
    logits.sub_(presence[:, None] * was_generated)
    return logits


def reference_penalties(
    logits: NDArray[np.float64],
    *,
    prompt_ids: list[list[int]],
    output_ids: list[list[int]],
    repetition: list[float],
    frequency: list[float],
    presence: list[float],
) -> NDArray[np.float64]:
    """Penalise a copy, one token at a time, from the ids themselves.

    Shapes: logits (n_seqs, vocab_size) float64; the lists hold one entry per sequence.
    """
    result = np.array(logits, dtype=np.float64)
    for row, (prompt, output) in enumerate(zip(prompt_ids, output_ids, strict=True)):
        for token in set(prompt) | set(output):
            value = result[row, token]
            value = value / repetition[row] if value > 0 else value * repetition[row]
            count = output.count(token)
            value -= frequency[row] * count
            value -= presence[row] * (count > 0)
            result[row, token] = value
    return result
