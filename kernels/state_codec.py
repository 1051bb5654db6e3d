"""Chain state and KV in few bits: FP8 E4M3 for what is sensitive, INT4 for the rest.

Contract, dispatch and the reference, which knows E4M3 as a list of 256 numbers. All backends give
the same bits: encoding is integer arithmetic, and a scaled value is one rounded float32 quotient.
Not here: records of keys and values (`kernels.kv_record`), the history's index
(`kernels.history_index`).
Source: Micikevicius et al., FP8 formats for deep learning, 2022, table 1 (E4M3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import state_codec as eager

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend

FP8_LARGEST: Final = 448.0
INT4_GROUP: Final = 32
INT4_LARGEST: Final = 7.0


class Packed(NamedTuple):
    """Codes and the scales of their groups.

    Shapes: FP8 codes as the values, scales (..., n / group_size); INT4 codes (..., n_groups * 16),
        scales (..., n_groups). Codes uint8, scales float32.
    """

    codes: Tensor
    scales: Tensor

    @property
    def n_bytes(self) -> int:
        """What both occupy."""
        return self.codes.numel() + 4 * self.scales.numel()


def encode_fp8(values: Tensor, *, backend: Backend | None = None) -> Tensor:
    """Round to the nearest E4M3 number, on ties to the even code; NaN becomes 127.

    What lies beyond +-448, infinities too, becomes +-448.

    Shapes: any, float32; result the same, uint8.

    Raises:
        ValueError: Values of another type.
    """
    values = _require(values, torch.float32, "encode_fp8")
    if choose_backend("encode_fp8", str(values.device), backend) == "torch":
        return eager.encode_fp8(values)
    codes = torch.empty(values.shape, dtype=torch.uint8)
    cpu.native.encode_fp8(values.view(-1).numpy(), codes.view(-1).numpy())
    return codes


def decode_fp8(codes: Tensor, *, backend: Backend | None = None) -> Tensor:
    """Give the numbers the codes stand for, exactly.

    Shapes: any, uint8; result the same, float32.

    Raises:
        ValueError: Codes of another type.
    """
    codes = _require(codes, torch.uint8, "decode_fp8")
    if choose_backend("decode_fp8", str(codes.device), backend) == "torch":
        return eager.decode_fp8(codes)
    values = torch.empty(codes.shape, dtype=torch.float32)
    cpu.native.decode_fp8(codes.view(-1).numpy(), values.view(-1).numpy())
    return values


def pack_fp8(values: Tensor, group_size: int, *, backend: Backend | None = None) -> Packed:
    """Encode groups of the last axis, each by its own scale `max|x| / 448`.

    A group that holds NaN or an infinity decodes to NaN throughout: a fault is not hidden.

    Shapes: values (..., n) float32, `group_size` divides n.

    Raises:
        ValueError: Another type, or groups that do not fill the axis.
    """
    values = _require(values, torch.float32, "pack_fp8")
    if group_size < 1 or values.dim() == 0 or values.shape[-1] % group_size:
        raise ValueError(
            f"pack_fp8: got group_size {group_size} for shape {tuple(values.shape)}, allowed a "
            "divisor of the last axis"
        )
    grouped = values.view(-1, group_size)
    if choose_backend("pack_fp8", str(values.device), backend) == "torch":
        packed = Packed(*eager.pack_fp8(grouped))
    else:
        packed = Packed(torch.empty(grouped.shape, dtype=torch.uint8), torch.empty(len(grouped)))
        cpu.native.pack_fp8(grouped.numpy(), packed.codes.numpy(), packed.scales.numpy())
    return Packed(
        packed.codes.view(values.shape),
        packed.scales.view(*values.shape[:-1], values.shape[-1] // group_size),
    )


def unpack_fp8(packed: Packed, *, backend: Backend | None = None) -> Tensor:
    """Give scale * code of every element.

    Shapes: as `pack_fp8` took, float32.

    Raises:
        ValueError: Codes and scales that do not belong together.
    """
    codes = _require(packed.codes, torch.uint8, "unpack_fp8")
    scales = _require(packed.scales, torch.float32, "unpack_fp8")
    n_groups = scales.numel()
    if n_groups == 0 or codes.numel() % n_groups or codes.shape[:-1] != scales.shape[:-1]:
        raise ValueError(f"unpack_fp8: got {_shapes(packed)}, allowed those of pack_fp8")
    grouped = codes.view(n_groups, -1)
    if choose_backend("unpack_fp8", str(codes.device), backend) == "torch":
        return eager.unpack_fp8(grouped, scales.view(-1)).view(codes.shape)
    values = torch.empty(codes.shape, dtype=torch.float32)
    cpu.native.unpack_fp8(
        grouped.numpy(), scales.view(-1).numpy(), values.view(grouped.shape).numpy()
    )
    return values


def pack_int4(values: Tensor, *, backend: Backend | None = None) -> Packed:
    """Encode groups of 32 of the last axis as 4-bit integers, by the scale `max|x| / 7`.

    A code is `x / scale`, half to even, within [-8, 7], plus 8; elements i and i + 16 of a group
    share a byte, the first in its low half. The last group is filled up with zeros. A group that
    holds NaN or an infinity unpacks to NaN throughout.

    Shapes: values (..., n) float32.

    Raises:
        ValueError: Another type, or no last axis.
    """
    values = _require(values, torch.float32, "pack_int4")
    if values.dim() == 0 or values.numel() == 0:
        raise ValueError(f"pack_int4: got shape {tuple(values.shape)}, allowed (..., n), n > 0")
    n_groups = int4_groups(values.shape[-1])
    rows = values.view(-1, values.shape[-1])
    if choose_backend("pack_int4", str(values.device), backend) == "torch":
        packed = Packed(*eager.pack_int4(rows))
    else:
        packed = Packed(
            torch.empty((len(rows), n_groups * 16), dtype=torch.uint8),
            torch.empty((len(rows), n_groups)),
        )
        cpu.native.pack_int4(rows.numpy(), packed.codes.numpy(), packed.scales.numpy())
    lead = values.shape[:-1]
    return Packed(packed.codes.view(*lead, -1), packed.scales.view(*lead, -1))


def unpack_int4(packed: Packed, n: int, *, backend: Backend | None = None) -> Tensor:
    """Give scale * (code - 8) of the first `n` elements of every row.

    Shapes: result (..., n) float32.

    Raises:
        ValueError: Codes and scales that do not hold rows of `n` elements.
    """
    codes = _require(packed.codes, torch.uint8, "unpack_int4")
    scales = _require(packed.scales, torch.float32, "unpack_int4")
    n_groups = int4_groups(n)
    lead = codes.shape[:-1]
    if (
        codes.shape != (*lead, n_groups * 16)
        or scales.shape != (*lead, n_groups)
        or codes.numel() == 0
    ):
        raise ValueError(
            f"unpack_int4: got {_shapes(packed)}, allowed (..., {n_groups * 16}) and "
            f"(..., {n_groups}) for n = {n}"
        )
    rows, row_scales = codes.view(-1, n_groups * 16), scales.view(-1, n_groups)
    if choose_backend("unpack_int4", str(codes.device), backend) == "torch":
        return eager.unpack_int4(rows, row_scales, n).view(*lead, n)
    values = torch.empty((*lead, n))
    cpu.native.unpack_int4(rows.numpy(), row_scales.numpy(), values.view(-1, n).numpy())
    return values


def int4_groups(n: int) -> int:
    """Groups of 32 that hold `n` elements."""
    return -(-n // INT4_GROUP)


def _require(data: Tensor, dtype: torch.dtype, op: str) -> Tensor:
    """Refuse another type; give the data side by side."""
    if data.dtype != dtype:
        raise ValueError(f"{op}: got {data.dtype}, allowed {dtype}")
    return data.detach().contiguous()


def _shapes(packed: Packed) -> str:
    return f"codes {tuple(packed.codes.shape)} and scales {tuple(packed.scales.shape)}"


def fp8_values() -> NDArray[np.float64]:
    """What each of the 256 codes stands for: sign, 4 bits of exponent, 3 of mantissa.

    Exponent 0 is subnormal, multiples of 2^-9; the code 127, of either sign, is NaN.
    """
    values = []
    for code in range(256):
        sign, exponent, mantissa = code >> 7, (code >> 3) & 15, code & 7
        size = (
            mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        )
        values.append(np.nan if code & 127 == 127 else (-1) ** sign * size)
    return np.array(values)


def reference_encode_fp8(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Search the nearest of the 127 sizes; where two are equally near the even code wins."""
    sizes = fp8_values()[:127]
    size = np.minimum(np.abs(values), FP8_LARGEST)
    above = np.searchsorted(sizes, size).clip(1, 126)
    below = above - 1
    to_above, to_below = sizes[above] - size, size - sizes[below]
    code = np.where(to_above < to_below, above, below)
    code = np.where(to_above == to_below, np.where(above % 2 == 0, above, below), code)
    return np.where(np.isnan(values), 127, code + 128 * np.signbit(values)).astype(np.uint8)


def reference_pack_fp8(
    values: NDArray[np.float32], group_size: int
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Encode group after group."""
    groups = values.reshape(-1, group_size)
    scales = np.array([_reference_scale(group, FP8_LARGEST) for group in groups])
    codes = [
        reference_encode_fp8((group / scale).astype(np.float64)) if scale != 0 else 0 * group
        for group, scale in zip(groups, scales, strict=True)
    ]
    return np.array(codes, dtype=np.uint8).reshape(values.shape), scales


def reference_pack_int4(
    values: NDArray[np.float32],
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Encode one row, element after element.

    Shapes: values (n,); codes (n_groups * 16,), scales (n_groups,).
    """
    n_groups = int4_groups(len(values))
    codes = np.zeros((n_groups, 16), np.uint8)
    scales = np.zeros(n_groups, np.float32)
    for index in range(n_groups):
        group = values[index * INT4_GROUP : (index + 1) * INT4_GROUP]
        scales[index] = scale = _reference_scale(group, INT4_LARGEST)
        for place in range(INT4_GROUP):
            value = group[place] if place < len(group) else np.float32(0)
            with np.errstate(divide="ignore", invalid="ignore"):
                quotient = float(value / scale)
            code = 8 + (0 if np.isnan(quotient) else round(min(7.0, max(-8.0, quotient))))
            codes[index, place % 16] |= code << (4 * (place // 16))
    return codes.ravel(), scales


def _reference_scale(group: NDArray[np.float32], largest: float) -> np.float32:
    if not np.isfinite(group).all():
        return np.float32(np.nan)
    return np.float32(np.abs(group).max() / np.float32(largest))
