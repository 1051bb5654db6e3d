"""Bias as dense rows of the vocabulary: the torch backend. Contract in `kernels.logit_bias`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

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


def add_bias(logits: Tensor, biases: Sequence[object]) -> Tensor:
    """Add in place to the rows that have a bias."""
    dense = _require_biases(logits, biases)
    if len(dense) == len(logits) > 0:
        return logits.add_(torch.stack(list(dense.values())).to(logits.device))
    if dense:
        logits[list(dense)] += torch.stack(list(dense.values())).to(logits.device)
    return logits


def _require_biases(logits: Tensor, biases: Sequence[object]) -> dict[int, Tensor]:
    """Give the biases that are there, by row."""
    dense: dict[int, Tensor] = {}
    for row, bias in enumerate(biases):
        if bias is None:
            continue
        if not isinstance(bias, DenseLogitBias):
            raise ValueError("biases: got one of another backend, allowed torch's and None")  # noqa: TRY004
        if len(bias.values) != logits.shape[1]:
            raise ValueError(
                f"biases: got one of vocab_size {len(bias.values)}, "
                f"allowed the logits' {logits.shape[1]}"
            )
        dense[row] = bias.values
    return dense
