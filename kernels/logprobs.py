"""Log-probabilities of the chosen and of the likeliest tokens, as clients ask for them.

Contract, dispatch and the float64 reference. They are the model's own: of the logits before any
bias, penalty, temperature or filter. Finite in any case: what has probability zero is told as
`FLOOR`, because JSON knows no infinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import Backend, choose_backend
from kernels.eager import logprobs as eager

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

FLOOR: Final = -9999.0


class Logprobs(NamedTuple):
    """What is told of every row.

    Shapes: chosen (n_seqs,); top_ids and top (n_seqs, n_top), falling.
    """

    chosen: Tensor
    top_ids: Tensor
    top: Tensor


def measure_logprobs(
    logits: Tensor, token_ids: Tensor, n_top: int, *, backend: Backend | None = None
) -> Logprobs:
    """Give log softmax(logits) at `token_ids` and at its `n_top` largest places.

    Of equal logits the lowest id comes first. NaN counts as -inf, +inf as the largest number.

    Shapes: logits (n_seqs, vocab_size) float32 or bfloat16; token_ids (n_seqs,) int64.

    Raises:
        ValueError: The shapes do not go together, or a token is not in the vocabulary.
    """
    n_top = min(n_top, logits.shape[-1])
    if choose_backend("logprobs", str(logits.device), backend) == "torch":
        return Logprobs(*eager.measure_logprobs(logits, token_ids, n_top, FLOOR))
    result = Logprobs(
        torch.empty(len(logits)),
        torch.empty((len(logits), n_top), dtype=torch.int64),
        torch.empty((len(logits), n_top)),
    )
    cpu.native.measure_logprobs(logits, token_ids, *result, torch.get_num_threads())
    return result


def reference_logprobs(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give log(exp(x_i) / sum_j exp(x_j)) of one row in float64.

    Shapes: (vocab_size,) to the same.
    """
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
