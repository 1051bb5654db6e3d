"""Sampling by eager torch: a full sort, dense noise, every row through the whole pipeline.

Contract: `kernels.sampling`. Weights and masses are double, and order is judged on the logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from kernels.eager.splitmix import GAMMA, MIX_1, mix, shift, signed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

GREEDY_TEMPERATURE: Final = 1e-5

_UNIT: Final = 2.0**-53


def clean_logits(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Turn NaN into -inf, and a row with +inf into one that has only its first +inf left.

    Shapes: (n_seqs, vocab_size) to the same in float32, is_faulty and has_nan (n_seqs,) bool.
    """
    is_nan = logits.isnan()
    cleaned = logits.float().masked_fill(is_nan, -torch.inf)
    largest, first = cleaned.max(dim=-1)
    rows = (largest == torch.inf).nonzero().flatten()
    if len(rows):
        cleaned[rows] = -torch.inf
        cleaned[rows, first[rows]] = 0.0
    return cleaned, largest == -torch.inf, is_nan.any(dim=-1)


def draw_rows(logits: Tensor, settings: NDArray[np.void]) -> tuple[Tensor, Tensor, Tensor]:
    """Draw one token for each row; also is_faulty and has_nan.

    Shapes: logits (n_seqs, vocab_size), settings (n_seqs,) of `SETTINGS` to three of (n_seqs,).
    """
    cleaned, is_faulty, has_nan = clean_logits(logits)
    token_ids = cleaned.argmax(dim=-1)
    rows = torch.from_numpy(np.flatnonzero(~is_greedy(settings))).to(logits.device)
    if len(rows):
        drawn = settings[rows.cpu().numpy()]
        kept, heights = _filter(cleaned[rows], drawn)
        noise = exponential_noise(
            _column(drawn, "seed", logits), _column(drawn, "position", logits), logits.shape[-1]
        )
        token_ids[rows] = (torch.where(kept, heights.exp(), 0.0) / noise).argmax(dim=-1)
    return token_ids.masked_fill(is_faulty, 0), is_faulty, has_nan


def spread_rows(logits: Tensor, settings: NDArray[np.void]) -> Tensor:
    """Give the probabilities that each row is drawn by.

    Shapes: logits (n_seqs, vocab_size), settings (n_seqs,) of `SETTINGS`; float64.
    """
    cleaned, is_faulty, _ = clean_logits(logits)
    greedy = torch.from_numpy(is_greedy(settings)).to(logits.device)
    result = torch.zeros_like(cleaned, dtype=torch.float64)
    result.scatter_(1, cleaned.argmax(dim=-1)[:, None], 1.0)
    rows = (~greedy).nonzero().flatten()
    if len(rows):
        kept, heights = _filter(cleaned[rows], settings[rows.cpu().numpy()])
        weights = torch.where(kept, heights.exp(), 0.0)
        result[rows] = weights / weights.sum(dim=-1, keepdim=True)
    return result.masked_fill(is_faulty[:, None], 0.0)


def is_greedy(settings: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which rows are exact argmax.

    Shapes: (n_seqs,) to the same.
    """
    return np.asarray((settings["temperature"] < GREEDY_TEMPERATURE) | (settings["top_k"] == 1))


def _column(settings: NDArray[np.void], name: str, like: Tensor) -> Tensor:
    """Bring one setting of every row to where the logits are."""
    return torch.from_numpy(settings[name].copy()).to(like.device)


def _filter(logits: Tensor, settings: NDArray[np.void]) -> tuple[Tensor, Tensor]:
    """Give what is kept of each row, and its heights (x - max) / T in double.

    Shapes: logits (n_seqs, vocab_size), clean and not greedy, to two of the same.
    """
    temperature, min_p, top_p, typical_p, depth = (
        _column(settings, name, logits)[:, None]
        for name in ("temperature", "min_p", "top_p", "typical_p", "depth")
    )
    heights = (logits.double() - logits.amax(dim=-1, keepdim=True)) / temperature
    kept = (logits > -torch.inf) & (heights >= min_p.log())
    top_k = _column(settings, "top_k", logits)[:, None]
    vocab_size = logits.shape[-1]
    rows = (((top_k > 0) & (top_k < vocab_size)) | (top_p < 1)).flatten().nonzero().flatten()
    if len(rows):
        limit = torch.where(top_k > 0, top_k, vocab_size)[rows]
        kept[rows] = _keep_prefix(logits[rows], heights[rows], kept[rows], limit, top_p[rows])
    rows = (typical_p < 1).flatten().nonzero().flatten()
    if len(rows):
        kept[rows] &= _keep_typical(heights[rows], kept[rows], typical_p[rows])
    left = torch.where(kept, heights, -torch.inf)
    return kept & (left - left.amax(dim=-1, keepdim=True) >= -depth), heights


def _keep_prefix(
    logits: Tensor, heights: Tensor, kept: Tensor, top_k: Tensor, top_p: Tensor
) -> Tensor:
    """Keep top-k and then top-p of what is kept, over a full sort of every row."""
    # A stable sort is what puts the lowest id first among equal logits.
    order = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    ranks = torch.arange(logits.shape[-1], device=logits.device)
    ordered = kept.gather(1, order) & (ranks < top_k)
    weights = torch.where(ordered, heights.gather(1, order).exp(), 0.0)
    before = weights.cumsum(dim=-1) - weights
    ordered &= (before < top_p * weights.sum(dim=-1, keepdim=True)) | (top_p >= 1)
    return torch.zeros_like(kept).scatter_(1, order, ordered)


def _keep_typical(heights: Tensor, kept: Tensor, mass: Tensor) -> Tensor:
    """Keep the tokens whose surprise is nearest to the entropy, until they have the mass."""
    weights = torch.where(kept, heights.exp(), 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    surprise = total.log() - heights
    entropy = torch.where(weights > 0, weights / total * surprise, 0.0).sum(dim=-1, keepdim=True)
    distance = torch.where(kept, (surprise - entropy).abs(), torch.inf)
    ordered, order = distance.sort(dim=-1, stable=True)
    reached = weights.gather(1, order).cumsum(dim=-1) >= mass * total
    last = reached.to(torch.uint8).argmax(dim=-1, keepdim=True)
    return distance <= ordered.gather(1, last)


def exponential_noise(seeds: Tensor, positions: Tensor, vocab_size: int) -> Tensor:
    """Standard exponential noise keyed by (seed, position, token id).

    Shapes: seeds and positions (n_seqs,) int64; result (n_seqs, vocab_size) float64, positive.
    """
    row_key = mix(seeds ^ mix(positions * signed(GAMMA) + signed(MIX_1)))
    token = torch.arange(1, vocab_size + 1, device=seeds.device) * signed(GAMMA)
    bits = mix(row_key[:, None] + token[None, :])
    uniform = (shift(bits, 11).to(torch.float64) + 0.5) * _UNIT
    # The largest would be 1 as a double, and its noise 0: a masked token's 0 / 0 would win.
    return uniform.clamp_(max=1 - _UNIT).log_().neg_()
