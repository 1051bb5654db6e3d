"""Tells rounding from difference: positions at which the last bits of a logit decide.

Two paths may compute a matrix product in another order, and logits differ by some 1e-6. Where the
best two tokens, or a token and a filter's cut, lie closer together than this module's margins,
either answer is right; such positions are counted and not held against a path. They follow from the
baseline alone, so a wrong path cannot hide behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from kernels.eager.sampling import exponential_noise

if TYPE_CHECKING:
    from torch import Tensor

    from harness.server.sequence import SamplingParams

LOGIT_MARGIN: Final = 1e-4
"""Between two logits, or a logit and min-p's floor."""
MASS_MARGIN: Final = 1e-5
"""Between a prefix's mass and top-p."""


def close_greedy(weights: Tensor) -> Tensor:
    """Where the likeliest two tokens are too close to call.

    Shapes: (n_positions, vocab_size) to (n_positions,) bool.
    """
    best, second = weights.topk(2, dim=-1).values.unbind(-1)
    return best - second < LOGIT_MARGIN


def close_draws(weights: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
    """Where the first two of the exponential race are too close to call.

    Shapes: (n_positions, vocab_size), the others (n_positions,) int64; result bool.
    """
    noise = exponential_noise(seeds, positions, weights.shape[-1])
    return close_greedy(weights.double() - noise.log())


def close_cuts(unfiltered: Tensor, params: SamplingParams) -> Tensor:
    """Where a token lies too close to a filter's cut.

    Shapes: (n_positions, vocab_size) to (n_positions,) bool.
    """
    ordered = unfiltered.double().sort(dim=-1, descending=True).values
    close = torch.zeros(len(ordered), dtype=torch.bool)
    if 0 < params.top_k < ordered.shape[-1]:
        close |= ordered[:, params.top_k - 1] - ordered[:, params.top_k] < LOGIT_MARGIN
        ordered[:, params.top_k :] = -torch.inf
    if params.min_p > 0:
        above = ordered - ordered[:, :1] - torch.tensor(params.min_p).double().log()
        close |= (above.abs() < LOGIT_MARGIN).any(dim=-1)
        ordered = ordered.masked_fill(above < 0, -torch.inf)
    if params.top_p < 1:
        mass = torch.softmax(ordered, dim=-1).cumsum(dim=-1)
        close |= ((mass - params.top_p).abs() < MASS_MARGIN).any(dim=-1)
        last = (mass < params.top_p).sum(dim=-1, keepdim=True).clamp(max=ordered.shape[-1] - 2)
        # Of two equals at the cut, either may be the one that is kept.
        edge = ordered.gather(-1, last) - ordered.gather(-1, last + 1)
        close |= edge[:, 0] < LOGIT_MARGIN
    return close
