"""Log-probabilities of the chosen and of the likeliest tokens, as clients ask for them.

Contract, the eager torch implementation and the float64 reference. They are the model's own: of the
logits before any bias, penalty, temperature or filter. Finite in any case: what has probability
zero is told as `FLOOR`, because JSON knows no infinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

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


def measure_logprobs(logits: Tensor, token_ids: Tensor, n_top: int) -> Logprobs:
    """Give log softmax(logits) at `token_ids` and at its `n_top` largest places.

    Shapes: logits (n_seqs, vocab_size) float32; token_ids (n_seqs,) int64.
    """
    cleaned = logits.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    # A row without a finite logit gives NaN; its request ends with an error anyway.
    logprobs = torch.log_softmax(cleaned, dim=-1).nan_to_num(nan=FLOOR).clamp(min=FLOOR)
    top, top_ids = logprobs.topk(min(n_top, logits.shape[-1]), dim=-1)
    return Logprobs(logprobs.gather(1, token_ids[:, None])[:, 0], top_ids, top)


def reference_logprobs(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give log(exp(x_i) / sum_j exp(x_j)) of one row in float64.

    Shapes: (vocab_size,) to the same.
    """
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
