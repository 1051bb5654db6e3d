"""Keys and values in packed records: K in FP8 with a scale per head and token, V in INT4 g32.

A record is one token's key and value of one head, as bytes side by side: head_dim key codes, 16
bytes of value codes for each group of 32, the key's float32 scale, the groups' float32 scales.
Contract, dispatch and layout; the arithmetic is `kernels.state_codec`'s. Paged attention reads
records as they lie (`kernels.paged_attention`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.state_codec import (
    Packed,
    int4_groups,
    pack_fp8,
    pack_int4,
    unpack_fp8,
    unpack_int4,
)

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.backend import Backend


def record_size(head_dim: int) -> int:
    """Bytes of one record; 56 for 32 elements, against 256 in float32."""
    n_groups = int4_groups(head_dim)
    return head_dim + 16 * n_groups + 4 + 4 * n_groups


def write_kv(
    records: Tensor, slots: Tensor, keys: Tensor, values: Tensor, *, backend: Backend | None = None
) -> None:
    """Pack keys and values into the records of their slots.

    Shapes: records (n_slots, n_kv_heads, record_size) uint8, contiguous; slots (n_tokens,) int64;
        keys and values (n_tokens, n_kv_heads, head_dim) float32.

    Raises:
        ValueError: Shapes that do not fit each other, or a slot that is not there.
    """
    _require("write_kv", records, slots, keys.shape, keys.shape[-1])
    if values.shape != keys.shape:
        raise ValueError(f"write_kv: got keys {tuple(keys.shape)}, values {tuple(values.shape)}")
    if choose_backend("write_kv", str(records.device), backend) == "cpu":
        cpu.native.write_kv(
            records.numpy(),
            slots.numpy(),
            keys.detach().contiguous().numpy(),
            values.detach().contiguous().numpy(),
        )
        return
    _require_slots("write_kv", slots, len(records))
    k = pack_fp8(keys, keys.shape[-1], backend="torch")
    v = pack_int4(values, backend="torch")
    parts = (k.codes, v.codes, k.scales.view(torch.uint8), v.scales.view(torch.uint8))
    records[slots] = torch.cat(parts, dim=-1)


def read_kv(
    records: Tensor, slots: Tensor, head_dim: int, *, backend: Backend | None = None
) -> tuple[Tensor, Tensor]:
    """Unpack the keys and the values of some slots.

    Shapes: records and slots as `write_kv`; results (n_tokens, n_kv_heads, head_dim) float32.

    Raises:
        ValueError: Records of another head_dim, or a slot that is not there.
    """
    shape = (len(slots), records.shape[1], head_dim)
    _require("read_kv", records, slots, shape, head_dim)
    if choose_backend("read_kv", str(records.device), backend) == "cpu":
        keys, values = torch.empty(shape), torch.empty(shape)
        cpu.native.read_kv(records.numpy(), slots.numpy(), keys.numpy(), values.numpy())
        return keys, values
    _require_slots("read_kv", slots, len(records))
    n_groups = int4_groups(head_dim)
    sizes = [head_dim, 16 * n_groups, 4, 4 * n_groups]
    k, v, k_scales, v_scales = torch.split(records[slots], sizes, dim=-1)
    return (
        unpack_fp8(Packed(k, _floats(k_scales)), backend="torch"),
        unpack_int4(Packed(v, _floats(v_scales)), head_dim, backend="torch"),
    )


def _floats(data: Tensor) -> Tensor:
    return data.contiguous().view(torch.float32)


def _require(
    op: str, records: Tensor, slots: Tensor, shape: tuple[int, ...], head_dim: int
) -> None:
    """Refuse what the layout does not allow."""
    expected = (*records.shape[:1], *shape[1:2], record_size(head_dim))
    if len(shape) != 3 or records.dtype != torch.uint8 or records.shape != expected:
        raise ValueError(
            f"{op}: got records {tuple(records.shape)} {records.dtype}, allowed (n_slots, "
            f"n_kv_heads, {record_size(head_dim)}) torch.uint8 for keys of shape {tuple(shape)}"
        )
    if slots.dtype != torch.int64 or slots.shape != shape[:1]:
        raise ValueError(
            f"{op}: got slots {tuple(slots.shape)} {slots.dtype}, allowed ({shape[0]},) torch.int64"
        )
    if not records.is_contiguous():
        raise ValueError(f"{op}: got records that are not contiguous, allowed an arena's layer")


def _require_slots(op: str, slots: Tensor, n_slots: int) -> None:
    """Refuse what indexing would read as counted from the end; the native kernel looks itself."""
    wrong = slots[(slots < 0) | (slots >= n_slots)]
    if len(wrong):
        raise ValueError(f"{op}: got slot {int(wrong[0])}, allowed 0 to {n_slots - 1}")
