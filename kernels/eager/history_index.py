"""The history's index by torch's 64-bit integers, which wrap as unsigned ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.eager.splitmix import GAMMA, mix, shift, signed

if TYPE_CHECKING:
    from torch import Tensor


def extend_hashes(hashes: Tensor, words: Tensor) -> Tensor:
    """Mix one more word in.

    Shapes: (n,) int64 each.
    """
    return mix((hashes ^ words) + signed(GAMMA))


def pack_index(steps: Tensor, hashes: Tensor) -> Tensor:
    """Step above, the hash's top 40 bits below.

    Shapes: (n,) int64 each.
    """
    return (steps << 40) | shift(hashes, 24)
