"""Log-probabilities by eager torch. Contract: `kernels.logprobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def measure_logprobs(
    logits: Tensor, token_ids: Tensor, n_top: int, floor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Give log softmax at `token_ids`, and the ids and values of the `n_top` largest.

    Shapes: logits (n_seqs, vocab_size), token_ids (n_seqs,).
    """
    cleaned = logits.float().nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    # A row without a finite logit gives NaN; its request ends with an error anyway.
    logprobs = torch.log_softmax(cleaned, dim=-1).nan_to_num(nan=floor).clamp(min=floor)
    top_ids = _find_top(cleaned, n_top)
    return logprobs.gather(1, token_ids[:, None])[:, 0], top_ids, logprobs.gather(1, top_ids)


def _find_top(logits: Tensor, n_top: int) -> Tensor:
    """Find the largest of every row; `topk` alone would give equal ones in any order."""
    top_ids = torch.empty((len(logits), n_top), dtype=torch.int64, device=logits.device)
    if n_top == 0:
        return top_ids
    least = logits.topk(n_top, dim=-1).values[:, -1]
    for row, ids, limit in zip(logits, top_ids, least, strict=True):
        candidates = (row >= limit).nonzero().flatten()
        ids.copy_(candidates[row[candidates].sort(descending=True, stable=True).indices[:n_top]])
    return top_ids
