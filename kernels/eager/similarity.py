"""Merging of similar beams in eager torch; the contract is `kernels.similarity`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def merge_similar(embeddings: Tensor, scores: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Whether each beam is merged, and into which.

    Shapes: embeddings (n_batch, n_beams, width); results (n_batch, n_beams).
    """
    wide = embeddings.to(torch.float64)
    norm = torch.linalg.vector_norm(wide, dim=-1)
    # 0 / 0 and inf / inf are NaN, which is above no threshold.
    cosine = wide @ wide.mT / (norm[:, :, None] * norm[:, None, :])
    rank = _ranks(scores)
    n_beams = scores.shape[1]
    is_close = (cosine > threshold) & (rank[:, :, None] > rank[:, None, :])
    own = torch.full_like(cosine, n_beams, dtype=torch.int64)
    first = torch.where(is_close, rank[:, None, :], own).amin(dim=-1)
    is_merged = first < n_beams
    beam_at = rank.argsort(dim=-1)
    into = torch.where(is_merged, first, rank)
    return is_merged, beam_at.gather(1, into)


def _ranks(scores: Tensor) -> Tensor:
    """Place of every beam when the likeliest stands first, the lowest index first on ties."""
    least = torch.nan_to_num(scores, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    order = torch.sort(least, dim=-1, descending=True, stable=True).indices
    return order.argsort(dim=-1)
