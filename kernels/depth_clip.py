"""Two clips by depth: of a depth field by its surroundings, and of logits below their largest.

Contract, dispatch and the float64 references. `clip_depth_field` bounds every pixel by the mean and
spread of its valid neighbours, so that bounds follow the scene; floor and ceiling are only the
outermost. `clip_logits` excludes what lies more than D nats below a row's largest: min-p with
exp(-D). In a draw it is a filter among others (`kernels.sampling`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import depth_clip as eager

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend

DEFAULT_DEPTH: Final = 10.0
"""Nats that `depth_clip` keeps below the likeliest token."""
FLOOR: Final = 0.1
CEILING: Final = 10.0


def clip_depth_field(
    depth: Tensor,
    valid: Tensor,
    *,
    window: int = 5,
    n_sigma: float = 3.0,
    floor: float = FLOOR,
    ceiling: float = CEILING,
    backend: Backend | None = None,
) -> Tensor:
    """Clip each valid pixel to mean +- n_sigma * sigma of its valid neighbours, and to the ends.

    Neighbours are the other pixels of the window x window square around it, as far as the field
    goes; sigma is their population's. With fewer than two of them only floor and ceiling bound.
    Both bounds are themselves kept within floor and ceiling. What is not valid, or not finite,
    counts as no neighbour and stays as it is.

    Shapes: depth (height, width) float32; valid (height, width) bool; result as depth.

    Raises:
        ValueError: Another type or shape, an even window, or ends in the wrong order.
    """
    if depth.dim() != 2 or depth.dtype != torch.float32 or depth.numel() == 0:
        raise ValueError(
            f"depth_clip: got a field {tuple(depth.shape)} {depth.dtype}, allowed (height, width) "
            "torch.float32"
        )
    if valid.shape != depth.shape or valid.dtype != torch.bool:
        raise ValueError(
            f"depth_clip: got a mask {tuple(valid.shape)} {valid.dtype}, allowed "
            f"{tuple(depth.shape)} torch.bool"
        )
    if window < 3 or window % 2 == 0:
        raise ValueError(f"depth_clip: got window {window}, allowed odd numbers from 3 up")
    if not (n_sigma >= 0 and floor <= ceiling and math.isfinite(floor) and math.isfinite(ceiling)):
        raise ValueError(
            f"depth_clip: got n_sigma {n_sigma}, floor {floor}, ceiling {ceiling}, allowed n_sigma "
            "from 0 up and finite floor <= ceiling"
        )
    if choose_backend("depth_clip", str(depth.device), backend) == "torch":
        return eager.clip_depth_field(depth, valid, window, n_sigma, floor, ceiling)
    result = torch.empty(depth.shape)
    cpu.native.clip_depth_field(
        depth.detach().contiguous().numpy(),
        valid.contiguous().numpy(),
        result.numpy(),
        window // 2,
        n_sigma,
        floor,
        ceiling,
    )
    return result


def clip_logits(logits: Tensor, depth: float, *, backend: Backend | None = None) -> Tensor:
    """Set to -inf what is below the row's largest logit minus `depth`; NaN becomes -inf.

    Shapes: logits (n_seqs, vocab_size) float32, rows may be apart in memory; result the same.
    Units: nats.

    Raises:
        ValueError: Another type or shape, or a depth that is no number from 0 up.
    """
    if logits.dim() != 2 or logits.dtype != torch.float32 or logits.shape[1] == 0:
        raise ValueError(
            f"depth_clip: got logits {tuple(logits.shape)} {logits.dtype}, allowed (n_seqs, "
            "vocab_size) torch.float32"
        )
    if not depth >= 0:
        raise ValueError(f"depth_clip: got depth {depth}, allowed numbers from 0 up")
    if choose_backend("logit_depth_clip", str(logits.device), backend) == "torch":
        return eager.clip_logits(logits, depth)
    result = torch.empty(logits.shape)
    cpu.native.clip_logits(logits.detach().contiguous().numpy(), depth, result.numpy())
    return result


def reference_clip_depth_field(
    depth: NDArray[np.float64],
    valid: NDArray[np.bool_],
    *,
    window: int,
    n_sigma: float,
    floor: float,
    ceiling: float,
) -> NDArray[np.float64]:
    """Look at one pixel after another."""
    radius = window // 2
    counts = valid & np.isfinite(depth)
    result = depth.copy()
    for y, x in zip(*np.nonzero(counts), strict=True):
        rows = range(max(0, y - radius), min(depth.shape[0], y + radius + 1))
        columns = range(max(0, x - radius), min(depth.shape[1], x + radius + 1))
        neighbours = [
            depth[i, j] for i in rows for j in columns if counts[i, j] and (i, j) != (y, x)
        ]
        low, high = floor, ceiling
        if len(neighbours) >= 2:
            mean, sigma = np.mean(neighbours), np.std(neighbours)
            low = min(max(mean - n_sigma * sigma, floor), ceiling)
            high = min(max(mean + n_sigma * sigma, floor), ceiling)
        result[y, x] = min(max(depth[y, x], low), high)
    return result


def reference_clip_logits(logits: NDArray[np.float32], depth: float) -> NDArray[np.float32]:
    """Look at one row after another."""
    result = np.where(np.isnan(logits), -np.inf, logits).astype(np.float32)
    for row in result:
        row[row < row.max() - np.float32(depth)] = -np.inf
    return result
