"""The beam step in eager torch; the contract is `kernels.beam`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def step_beams(scores: Tensor, logprobs: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Flat indices (beam * vocab_size + token) and totals of the best, falling.

    `topk` says nothing of the order of equal values, so it only gives the value at the cut; of what
    equals it the lowest indices fill up.

    Shapes: scores (n_batch, n_beams); logprobs (n_batch, n_beams, vocab_size); results
        (n_batch, width).
    """
    totals = (scores[:, :, None] + logprobs).flatten(1)
    totals = torch.nan_to_num(totals, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    cut = totals.topk(width, dim=-1).values[:, -1:]
    is_above = totals > cut
    is_at = totals == cut
    n_open = width - is_above.sum(dim=-1, keepdim=True)
    is_kept = is_above | (is_at & (is_at.cumsum(dim=-1) <= n_open))
    flat = is_kept.nonzero()[:, 1].view(-1, width)
    best, order = torch.sort(totals.gather(1, flat), dim=-1, descending=True, stable=True)
    return flat.gather(1, order), best
