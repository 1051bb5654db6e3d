"""The history's index by torch's 64-bit integers, which wrap as unsigned ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kernels.eager.sampling import _mix, _shift, _signed

if TYPE_CHECKING:
    from torch import Tensor

_GAMMA: Final = 0x9E3779B97F4A7C15


def extend_hashes(hashes: Tensor, words: Tensor) -> Tensor:
    """Mix one more word in.

    Shapes: (n,) int64 each.
    """
    return _mix((hashes ^ words) + _signed(_GAMMA))


def pack_index(steps: Tensor, hashes: Tensor) -> Tensor:
    """Step above, the hash's top 40 bits below.

    Shapes: (n,) int64 each.
    """
    return (steps << 40) | _shift(hashes, 24)
