"""The index of a chain's history: a step's number and a hash of the way to it, in 8 bytes.

24 bits of step (16.7 million steps) and 40 bits of hash. Two different trajectories share a hash
with probability 2^-40, so n of them have n (n - 1) / 2^41 pairs that do, on average: one in two
runs of a million, one in two million runs of a thousand. (Four bits, as published, collide once in
16.) The hash takes one word at a time, so a step costs the same however long the history is.
Contract, dispatch and the reference with Python's integers.
Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014 (the mixing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import history_index as eager

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.backend import Backend

STEP_BITS: Final = 24
HASH_BITS: Final = 40
START: Final = 0
"""The hash of no history."""

_GAMMA: Final = 0x9E3779B97F4A7C15
_WORD: Final = 1 << 64


def extend_hashes(hashes: Tensor, words: Tensor, *, backend: Backend | None = None) -> Tensor:
    """Take one more word into each history's 64-bit hash: h <- mix((h ^ word) + gamma).

    Shapes: hashes and words (n,) int64, a token id or a state's bits; result the same.

    Raises:
        ValueError: Another type, or lengths that differ.
    """
    _require("extend_hashes", hashes, words)
    if choose_backend("extend_hashes", str(hashes.device), backend) == "torch":
        return eager.extend_hashes(hashes, words)
    result = torch.empty_like(hashes)
    cpu.native.extend_hashes(
        hashes.contiguous().numpy(), words.contiguous().numpy(), result.numpy()
    )
    return result


def pack_index(steps: Tensor, hashes: Tensor, *, backend: Backend | None = None) -> Tensor:
    """Put step and the top 40 bits of the hash into one word.

    Shapes: steps and hashes (n,) int64; result (n,) int64.

    Raises:
        ValueError: A step outside 0 to 2^24 - 1, another type, or lengths that differ.
    """
    _require("pack_index", steps, hashes)
    wrong = steps[(steps < 0) | (steps >= 1 << STEP_BITS)]
    if len(wrong):
        raise ValueError(
            f"pack_index: got step {int(wrong[0])}, allowed 0 to {(1 << STEP_BITS) - 1}"
        )
    if choose_backend("pack_index", str(steps.device), backend) == "torch":
        return eager.pack_index(steps, hashes)
    result = torch.empty_like(steps)
    cpu.native.pack_index(steps.contiguous().numpy(), hashes.contiguous().numpy(), result.numpy())
    return result


def unpack_index(index: Tensor) -> tuple[Tensor, Tensor]:
    """Give steps, and the 40 bits that are left of the hashes.

    Shapes: index (n,) int64; both results the same.
    """
    return index >> HASH_BITS & ((1 << STEP_BITS) - 1), index & ((1 << HASH_BITS) - 1)


def _require(op: str, one: Tensor, other: Tensor) -> None:
    if not one.dtype == other.dtype == torch.int64 or one.shape != other.shape or one.dim() != 1:
        raise ValueError(
            f"{op}: got {tuple(one.shape)} {one.dtype} and {tuple(other.shape)} {other.dtype}, "
            "allowed two of (n,) torch.int64"
        )


def reference_hash(words: list[int]) -> int:
    """Hash a whole history, as an unsigned integer."""
    value = START
    for word in words:
        value = _mix(((value ^ (word % _WORD)) + _GAMMA) % _WORD)
    return value


def _mix(word: int) -> int:
    """SplitMix64's finaliser."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % _WORD
    return word ^ (word >> 31)
