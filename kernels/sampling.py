"""From logits to one token: temperature, top-k, min-p, top-p, draw, in this order.

Contract, the eager torch implementation (full sort) and the float64 reference. Exactly k tokens
survive top-k and the smallest prefix survives top-p, the lowest id first on ties.
The draw is an exponential race, `argmax_j p_j / E_j`, whose noise E_j is a pure function of
(seed, position, token id): a token never depends on the batch its sequence happens to share.
Not here: penalties, which come before (`kernels.penalties`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

GREEDY_TEMPERATURE: Final = 1e-5
"""Below it a row is exact argmax and its seed is not used."""

# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_WORD: Final = 1 << 64
_UNIT: Final = 2.0**-53


class Draw(NamedTuple):
    """Chosen tokens, and which rows had no finite logit left (their token is 0).

    Shapes: both (n_seqs,); int64 and bool.
    """

    token_ids: Tensor
    is_faulty: Tensor


def clean_logits(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Turn NaN into -inf and flag the rows in which nothing finite is left.

    Shapes: (n_seqs, vocab_size) to the same and (n_seqs,) bool.
    """
    cleaned = torch.nan_to_num(
        logits, nan=-torch.inf, posinf=torch.finfo(logits.dtype).max, neginf=-torch.inf
    )
    return cleaned, cleaned.amax(dim=-1) == -torch.inf


def choose_greedy(logits: Tensor) -> Draw:
    """Take the largest logit of every row, the lowest id on ties.

    Shapes: logits (n_seqs, vocab_size).
    """
    cleaned, is_faulty = clean_logits(logits)
    return Draw(cleaned.argmax(dim=-1), is_faulty)


def filter_logits(
    logits: Tensor, *, temperature: Tensor, top_k: Tensor, min_p: Tensor, top_p: Tensor
) -> Tensor:
    """Divide by the temperature and set what the filters exclude to -inf.

    top_k <= 0 or >= vocab_size, min_p = 0 and top_p = 1 are off. min-p keeps
    `x >= max(x) + ln(min_p)`. top-p keeps the smallest prefix, by falling probability renormalised
    after the filters before it, whose mass reaches top_p. The largest logit is always kept.

    Shapes: logits (n_seqs, vocab_size) float32; the parameters (n_seqs,).
    """
    scaled = logits / temperature[:, None]
    vocab_size = logits.shape[-1]
    needs_sort = ((top_k > 0) & (top_k < vocab_size)) | (top_p < 1)
    rows = needs_sort.nonzero().flatten()
    if len(rows) == len(scaled):
        return _filter_sorted(scaled, top_k, min_p, top_p)
    if bool((min_p > 0).any()):
        floor = scaled.amax(dim=-1) + min_p.log()
        scaled = scaled.masked_fill(scaled < floor[:, None], -torch.inf)
    if len(rows):
        scaled[rows] = _filter_sorted(scaled[rows], top_k[rows], min_p[rows], top_p[rows])
    return scaled


def _filter_sorted(scaled: Tensor, top_k: Tensor, min_p: Tensor, top_p: Tensor) -> Tensor:
    """Apply top-k, min-p and top-p over a full sort of every row."""
    vocab_size = scaled.shape[-1]
    # A stable sort is what puts the lowest id first among equal logits.
    ordered, ids = torch.sort(scaled, dim=-1, descending=True, stable=True)
    limit = torch.where(top_k > 0, top_k, vocab_size)
    keep = torch.arange(vocab_size, device=scaled.device)[None, :] < limit[:, None]
    keep &= ordered >= ordered[:, :1] + min_p.log()[:, None]
    ordered = ordered.masked_fill(~keep, -torch.inf)
    mass = torch.softmax(ordered, dim=-1, dtype=torch.float64)
    mass_before = mass.cumsum(dim=-1) - mass
    keep = (mass_before < top_p[:, None]) | (top_p[:, None] >= 1)
    keep[:, 0] = True
    ordered = ordered.masked_fill(~keep, -torch.inf)
    return torch.empty_like(scaled).scatter_(1, ids, ordered)


def sample(
    logits: Tensor,
    *,
    temperature: Tensor,
    top_k: Tensor,
    min_p: Tensor,
    top_p: Tensor,
    seeds: Tensor,
    positions: Tensor,
) -> Draw:
    """Filter every row and draw one token from what is left.

    Every temperature must be at least `GREEDY_TEMPERATURE`; greedy rows go to `choose_greedy`.

    Shapes: logits (n_seqs, vocab_size) float32; everything else (n_seqs,), seeds and positions
        int64, top_k int64, the rest float32.
    """
    cleaned, is_faulty = clean_logits(logits)
    kept = filter_logits(cleaned, temperature=temperature, top_k=top_k, min_p=min_p, top_p=top_p)
    probability = torch.softmax(kept, dim=-1, dtype=torch.float64)
    noise = exponential_noise(seeds, positions, logits.shape[-1])
    token_ids = (probability / noise).argmax(dim=-1)
    return Draw(token_ids.masked_fill(is_faulty, 0), is_faulty)


def exponential_noise(seeds: Tensor, positions: Tensor, vocab_size: int) -> Tensor:
    """Standard exponential noise keyed by (seed, position, token id).

    Shapes: seeds and positions (n_seqs,) int64; result (n_seqs, vocab_size) float64, positive.
    """
    row_key = _mix(seeds ^ _mix(positions * _signed(_GAMMA) + _signed(_MIX_1)))
    token = torch.arange(1, vocab_size + 1, device=seeds.device) * _signed(_GAMMA)
    bits = _mix(row_key[:, None] + token[None, :])
    uniform = (_shift(bits, 11).to(torch.float64) + 0.5) * _UNIT
    return uniform.log_().neg_()


def _mix(word: Tensor) -> Tensor:
    """SplitMix64's finaliser; int64 arithmetic wraps as unsigned arithmetic does."""
    word = (word ^ _shift(word, 30)) * _signed(_MIX_1)
    word = (word ^ _shift(word, 27)) * _signed(_MIX_2)
    return word ^ _shift(word, 31)


def _shift(word: Tensor, n_bits: int) -> Tensor:
    """Logical right shift: torch shifts signed integers arithmetically."""
    return (word >> n_bits) & ((1 << (64 - n_bits)) - 1)


def _signed(value: int) -> int:
    """Write the 64-bit pattern as a signed integer."""
    return value - _WORD if value >= _WORD // 2 else value


def reference_probabilities(
    logits: NDArray[np.float64], *, temperature: float, top_k: int, min_p: float, top_p: float
) -> NDArray[np.float64]:
    """Give the distribution one row is drawn from, token by token in float64.

    Shapes: logits (vocab_size,) to the same; a greedy row becomes one-hot.
    """
    scaled = np.where(np.isnan(logits), -np.inf, np.asarray(logits, dtype=np.float64))
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))
    result = np.zeros(len(scaled))
    if temperature < GREEDY_TEMPERATURE:
        result[order[0]] = 1.0
        return result
    scaled = scaled / temperature
    largest = scaled[order[0]]
    if top_k > 0:
        order = order[:top_k]
    if min_p > 0:
        order = [token for token in order if scaled[token] >= largest + np.log(min_p)]
    weights = np.exp(scaled[order] - largest)
    weights /= weights.sum()
    kept: list[int] = []
    mass = 0.0
    for token, weight in zip(order, weights, strict=True):
        if kept and mass >= top_p and top_p < 1:
            break
        kept.append(token)
        mass += weight
    result[kept] = np.exp(scaled[kept] - largest)
    return np.asarray(result / result.sum())


def reference_noise(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """Exponential noise of one row, with Python's unbounded integers.

    Shapes: result (vocab_size,).
    """
    key = _mix_int((seed % _WORD) ^ _mix_int(position * _GAMMA + _MIX_1))
    words = [_mix_int(key + (token + 1) * _GAMMA) for token in range(vocab_size)]
    uniform = np.array([((word >> 11) + 0.5) * _UNIT for word in words])
    return np.asarray(-np.log(uniform))


def _mix_int(word: int) -> int:
    """SplitMix64's finaliser on a Python integer."""
    word %= _WORD
    word = ((word ^ (word >> 30)) * _MIX_1) % _WORD
    word = ((word ^ (word >> 27)) * _MIX_2) % _WORD
    return word ^ (word >> 31)
