"""Which beams say the same: cosine of their embeddings, with a threshold, likelier ones survive.

Contract, dispatch and the float64 reference. A beam is merged when a likelier one of its batch is
closer than the threshold; of equal scores the lower index is the likelier. Merging is transitive: a
beam that is close only to a merged one goes with it. What becomes of the beams is the caller's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import similarity as eager

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend


class Merge(NamedTuple):
    """What becomes of every beam.

    Attributes:
        is_merged: Whether a likelier beam stands for this one.
        into: The likeliest beam that is close enough; its own index where none is.

    Shapes: both (n_batch, n_beams); bool and int64.
    """

    is_merged: Tensor
    into: Tensor


def merge_similar(
    embeddings: Tensor, scores: Tensor, threshold: float, *, backend: Backend | None = None
) -> Merge:
    """Merge every beam whose cosine with a likelier one is above `threshold`.

    A vector of zeros, and one with NaN or infinity, is close to nothing. A score of NaN counts as
    the least.

    Shapes: embeddings (n_batch, n_beams, width) float32; scores (n_batch, n_beams) float32.

    Raises:
        ValueError: The shapes do not go together, or the threshold is outside [-1, 1].
        TypeError: Another type than float32.
        BackendError: The backend asked for cannot run.
    """
    if embeddings.dim() != 3 or scores.shape != embeddings.shape[:2] or not scores.shape[1]:
        raise ValueError(
            f"similarity: got embeddings {tuple(embeddings.shape)} and scores "
            f"{tuple(scores.shape)}, allowed (n_batch, n_beams, width) and (n_batch, n_beams), "
            "n_beams at least 1"
        )
    if not -1 <= threshold <= 1:
        raise ValueError(f"similarity: got threshold {threshold}, allowed -1 to 1")
    if embeddings.dtype != torch.float32 or scores.dtype != torch.float32:
        raise TypeError(
            f"similarity: got {embeddings.dtype} and {scores.dtype}, allowed torch.float32"
        )
    if choose_backend("similarity", str(embeddings.device), backend) == "cpu":
        return _merge_natively(embeddings, scores, threshold)
    return Merge(*eager.merge_similar(embeddings, scores, threshold))


def _merge_natively(embeddings: Tensor, scores: Tensor, threshold: float) -> Merge:
    into = torch.empty(scores.shape, dtype=torch.int64)
    cpu.native.merge_similar(
        embeddings.detach().contiguous(), scores.detach().contiguous(), threshold, into
    )
    return Merge(into != torch.arange(scores.shape[1]), into)


def reference_merge(
    embeddings: NDArray[np.float64], scores: NDArray[np.float64], threshold: float
) -> list[int]:
    """Give the beam that stands for each beam of one batch entry, pair by pair.

    Shapes: embeddings (n_beams, width); scores (n_beams,) without NaN.
    """
    order = sorted(range(len(scores)), key=lambda beam: (-scores[beam], beam))
    into = list(range(len(scores)))
    for place, beam in enumerate(order):
        for likelier in order[:place]:
            if _cosine(embeddings[likelier], embeddings[beam]) > threshold:
                into[beam] = likelier
                break
    return into


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Cosine by exact sums; NaN, which is above nothing, where it is undefined."""
    product = math.sqrt(math.fsum(first * first)) * math.sqrt(math.fsum(second * second))
    if product == 0 or not math.isfinite(product):
        return math.nan
    return math.fsum(first * second) / product
