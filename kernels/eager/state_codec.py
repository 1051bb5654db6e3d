"""FP8 E4M3 and INT4 by torch's integer operations, on any device.

Torch's own cast is not used: whether it saturates depends on its version and device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch import Tensor

_SIZE: Final = 0x7FFFFFFF
_INFINITY: Final = 0x7F800000
_LARGEST: Final = 0x43E00000  # 448
_SMALLEST_NORMAL: Final = 0x3C800000  # 2^-6


def encode_fp8(values: Tensor) -> Tensor:
    """Round the 23 bits of mantissa to 3, or to multiples of 2^-9 where E4M3 is subnormal.

    Shapes: any, float32; result uint8.
    """
    word = values.view(torch.int32)
    size = word & _SIZE
    capped = size.clamp(max=_LARGEST)
    normal = (capped + 0x7FFFF + ((capped >> 20) & 1) - (120 << 23)) >> 20
    shift = (141 - (capped >> 23)).clamp(1, 25)
    mantissa = (capped & 0x7FFFFF) | 0x800000
    half = torch.ones_like(shift) << (shift - 1)
    subnormal = (mantissa + half - 1 + ((mantissa >> shift) & 1)) >> shift
    code = torch.where(capped >= _SMALLEST_NORMAL, normal, subnormal)
    code = code | ((word >> 24) & 0x80)
    return torch.where(size > _INFINITY, 127, code).to(torch.uint8)


def decode_fp8(codes: Tensor) -> Tensor:
    """Move exponent and mantissa to their places in a float32.

    Shapes: any, uint8; result float32.
    """
    word = codes.to(torch.int32)
    size = word & 127
    normal = ((size << 20) + (120 << 23)).view(torch.float32)
    value = torch.where(size >= 8, normal, size * 2.0**-9)
    value = torch.where(size == 127, torch.nan, value)
    return torch.where(word >= 128, -value, value)


def pack_fp8(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Give codes and scales.

    Shapes: groups (n_groups, group_size); scales (n_groups,).
    """
    scales = _scales(groups, 448.0)
    codes = encode_fp8(groups / scales[:, None])
    return codes.masked_fill(scales[:, None] == 0, 0), scales


def unpack_fp8(codes: Tensor, scales: Tensor) -> Tensor:
    """Undo `pack_fp8` up to rounding."""
    return decode_fp8(codes) * scales[:, None]


def pack_int4(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Give codes and scales.

    Shapes: rows (n_rows, n); codes (n_rows, n_groups * 16), scales (n_rows, n_groups).
    """
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[-1] % 32))
    groups = padded.view(len(rows), -1, 32)
    scales = _scales(groups, 7.0)
    quotient = (groups / scales[..., None]).nan_to_num(nan=0.0)
    codes = (quotient.round().clamp(-8, 7) + 8).to(torch.uint8)
    low, high = codes.view(len(rows), -1, 2, 16).unbind(-2)
    return (low | (high << 4)).flatten(-2), scales


def unpack_int4(codes: Tensor, scales: Tensor, n: int) -> Tensor:
    """Undo `pack_int4` up to rounding.

    Shapes: result (n_rows, n).
    """
    groups = codes.view(len(codes), -1, 16)
    both = torch.stack((groups & 15, groups >> 4), dim=-2).flatten(-2)
    return ((both.to(torch.float32) - 8) * scales[..., None]).flatten(-2)[:, :n]


def _scales(groups: Tensor, largest: float) -> Tensor:
    """Give max|x| / largest, NaN where a value is not finite."""
    most = groups.abs().amax(dim=-1)
    return (most + (most - most)) / largest
