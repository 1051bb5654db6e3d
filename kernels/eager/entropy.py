"""Entropy by eager torch, in double. Contract: `kernels.entropy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels.eager.sampling import clean_logits

if TYPE_CHECKING:
    from torch import Tensor


def measure_entropy(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give entropy, largest probability and varentropy of every row.

    Shapes: (n_seqs, vocab_size) to three of (n_seqs,) float64.
    """
    cleaned, is_faulty, _ = clean_logits(logits)
    surprise = -torch.log_softmax(cleaned.double(), dim=-1)
    p = (-surprise).exp()
    # What has no probability has no part in the sums: 0 times infinity.
    surprise = surprise.masked_fill(p == 0, 0.0)
    entropy = (p * surprise).sum(dim=-1, keepdim=True)
    varentropy = (p * (surprise - entropy).square()).sum(dim=-1)
    measured = (entropy[:, 0], p.amax(dim=-1), varentropy)
    first, second, third = (each.masked_fill(is_faulty, 0.0) for each in measured)
    return first, second, third
