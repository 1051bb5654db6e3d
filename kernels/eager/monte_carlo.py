"""Philox and its transforms in eager torch; the contract is `kernels.monte_carlo`'s.

Torch has no unsigned 32-bit multiplication: words live in int64, whose products wrap as unsigned
ones do. Transforms are made in float64 and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch import Tensor

_MASK: Final = (1 << 32) - 1
Words = tuple["Tensor", "Tensor", "Tensor", "Tensor"]


def draw_monte_carlo(
    law: str, rows: Tensor, columns: Tensor, seed: int, location: Tensor, scale: Tensor
) -> Tensor:
    """Transform the words of every row and column.

    Shapes: rows, location and scale (n_rows,), columns (n_columns,); result (n_rows, n_columns).
    """
    block = 16 * (columns // 64) + columns % 16
    counter = torch.broadcast_tensors(  # type: ignore[no-untyped-call]
        (block & _MASK)[None, :],
        (block >> 32)[None, :],
        (rows & _MASK)[:, None],
        ((rows >> 32) & _MASK)[:, None],
    )
    words = philox((counter[0], counter[1], counter[2], counter[3]), seed & _MASK, seed >> 32)
    base = _transform(law, words, (columns // 16 % 4)[None, :])
    value = base * scale[:, None] + location[:, None]
    return (value.sigmoid() if law == "sigmoid_normal" else value).to(torch.float32)


def philox(counter: Words, key_0: int, key_1: int) -> Words:
    """Ten rounds on 32-bit words held in int64."""
    c0, c1, c2, c3 = counter
    for _ in range(10):
        first, second = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((second >> 32) & _MASK) ^ c1 ^ key_0,
            second & _MASK,
            ((first >> 32) & _MASK) ^ c3 ^ key_1,
            first & _MASK,
        )
        key_0, key_1 = (key_0 + 0x9E3779B9) & _MASK, (key_1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3


def _transform(law: str, words: Words, own: Tensor) -> Tensor:
    """Base values in float64 from each element's own word, or its pair of words.

    Shapes: own (1, n_columns), which of the four words is an element's own.
    """
    if law in {"normal", "sigmoid_normal"}:
        is_second = own >= 2
        radius = (-2 * _fraction(torch.where(is_second, words[2], words[0])).log()).sqrt()
        turn = torch.where(is_second, words[3], words[1]).to(torch.float64)
        angle = turn * (2 * math.pi / (1 << 32))
        return radius * torch.where(own % 2 == 1, angle.sin(), angle.cos())
    word = torch.stack(words).gather(0, own.expand_as(words[0])[None])[0]
    if law == "uniform":
        return ((word >> 9).to(torch.float64) + 0.5) / (1 << 23)
    exponential = -_fraction(word).log()
    return exponential if law == "exponential" else -exponential.log()


def _fraction(word: Tensor) -> Tensor:
    return (word.to(torch.float64) + 0.5) / (1 << 32)
