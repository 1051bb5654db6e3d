"""Bias as dense rows of the vocabulary: the torch backend. Contract in `kernels.logit_bias`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels.rows import entries_by_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor


class DenseLogitBias:
    """One request's bias.

    Shapes: values (vocab_size,) float32.
    """

    def __init__(self, values: Mapping[int, float], *, vocab_size: int) -> None:
        self.values = torch.zeros(vocab_size)
        self.values[list(values)] = torch.tensor(list(values.values()), dtype=torch.float32)

    @property
    def vocab_size(self) -> int:
        """Columns of the logits it goes with."""
        return len(self.values)


def add_bias(logits: Tensor, biases: Sequence[object]) -> Tensor:
    """Add in place to the rows that have a bias."""
    dense = entries_by_row(logits, biases, DenseLogitBias, "biases")
    if not dense:
        return logits
    values = torch.stack([each.values for each in dense.values()]).to(logits.device)
    if len(dense) == len(logits):
        return logits.add_(values)
    logits[list(dense)] += values
    return logits
