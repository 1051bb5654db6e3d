"""SplitMix64 by torch's 64-bit integers, which wrap as unsigned ones do.

The noise of a draw and the history's index are made of it. In C++: `kernels/cpu/noise.hpp`.
Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import Tensor

GAMMA: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB


def mix(word: Tensor) -> Tensor:
    """SplitMix64's finaliser; int64 arithmetic wraps as unsigned arithmetic does."""
    word = (word ^ shift(word, 30)) * signed(MIX_1)
    word = (word ^ shift(word, 27)) * signed(_MIX_2)
    return word ^ shift(word, 31)


def shift(word: Tensor, n_bits: int) -> Tensor:
    """Logical right shift: torch shifts signed integers arithmetically."""
    return (word >> n_bits) & ((1 << (64 - n_bits)) - 1)


def signed(value: int) -> int:
    """Write the 64-bit pattern as a signed integer."""
    return value - (1 << 64) if value >= 1 << 63 else value
