"""Depth clips in eager torch: sums over windows by pooling, in float64."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d


def clip_depth_field(
    depth: Tensor, valid: Tensor, window: int, n_sigma: float, floor: float, ceiling: float
) -> Tensor:
    """Clip by count, sum and sum of squares of each window, the pixel itself taken off.

    Values are counted from the field's mean, lest the difference of squares lose them.
    """
    counts = valid & depth.isfinite()
    wide = torch.where(counts, depth, 0).to(torch.float64)
    wide = torch.where(counts, wide - wide.sum() / counts.sum().clamp(min=1), 0)
    parts = torch.stack((counts.to(torch.float64), wide, wide * wide))
    sums = avg_pool2d(parts, window, stride=1, padding=window // 2, divisor_override=1) - parts
    n, total, squares = sums.unbind(0)
    mean = total / n
    reach = n_sigma * (squares / n - mean * mean).clamp(min=0).sqrt()
    mean = mean + torch.where(counts, depth, 0).to(torch.float64).sum() / counts.sum().clamp(min=1)
    has_bounds = n >= 2
    low = torch.where(has_bounds, mean - reach, floor).clamp(floor, ceiling)
    high = torch.where(has_bounds, mean + reach, ceiling).clamp(floor, ceiling)
    clipped = depth.to(torch.float64).clamp(low, high).to(torch.float32)
    return torch.where(counts, clipped, depth)


def clip_logits(logits: Tensor, depth: float) -> Tensor:
    """Mask what is too deep; the limit is rounded to float32 once."""
    cleaned = torch.where(logits.isnan(), -torch.inf, logits)
    limit = cleaned.amax(dim=-1, keepdim=True) - depth
    return cleaned.masked_fill(cleaned < limit, -torch.inf)
