"""Bias on single tokens: what a request adds to their logits, -inf for a ban.

Contract, dispatch and the reference. It comes first of all that edits logits, before the penalties:
a penalty sees the biased logit, and what is banned stays banned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import logit_bias as eager
from kernels.rows import require_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend

LogitBias: TypeAlias = "eager.DenseLogitBias | cpu.native.LogitBias"
"""A request's bias, of the backend that `build_logit_bias` was asked for; it may be shared."""


def build_logit_bias(
    values: Mapping[int, float],
    *,
    vocab_size: int,
    device: str = "cpu",
    backend: Backend | None = None,
) -> LogitBias:
    """Prepare what to add to the logit of each token id, for logits that lie on `device`.

    Raises:
        ValueError: An id lies outside of the vocabulary, or a value is NaN or +inf.
    """
    for token_id, value in values.items():
        if not 0 <= token_id < vocab_size:
            raise ValueError(f"bias: got token id {token_id}, allowed 0 to {vocab_size - 1}")
        if math.isnan(value) or value == math.inf:
            raise ValueError(f"bias of token {token_id}: got {value}, allowed a number or -inf")
    if choose_backend("logit_bias", device, backend) == "torch":
        return eager.DenseLogitBias(values, vocab_size=vocab_size)
    return cpu.native.LogitBias(list(values), list(values.values()), vocab_size=vocab_size)


def add_bias(
    logits: Tensor, biases: Sequence[LogitBias | None], *, backend: Backend | None = None
) -> Tensor:
    """Add each row's bias in place, and return the logits; None adds nothing.

    Shapes: logits (n_seqs, vocab_size) float32, rows of any stride; biases (n_seqs,).

    Raises:
        ValueError: Shape, type or stride is another, or a bias is of another backend.
    """
    require_rows(logits, biases, "biases")
    if choose_backend("logit_bias", logits.device.type, backend) == "torch":
        return eager.add_bias(logits, biases)
    native: Any = biases if isinstance(biases, list) else list(biases)
    cpu.native.add_bias(logits.numpy(), native)
    return logits


def reference_bias(
    logits: NDArray[np.floating[Any]], values: Sequence[Mapping[int, float] | None]
) -> NDArray[np.floating[Any]]:
    """Add to a copy, one token at a time.

    Shapes: logits (n_seqs, vocab_size); values (n_seqs,).
    """
    result = logits.copy()
    for row, each in enumerate(values):
        for token_id, value in (each or {}).items():
            result[row, token_id] += logits.dtype.type(value)
    return result
