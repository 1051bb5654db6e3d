"""Decode attention in eager torch: a padded gather of every context, then SDPA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

from kernels.kv_record import read_kv

if TYPE_CHECKING:
    from torch import Tensor


def paged_attention(
    queries: Tensor, kv: Tensor, first_slots: Tensor, lengths: Tensor, block_size: int
) -> Tensor:
    """Gather all contexts to the longest one's length, mask what is beyond, attend.

    Shapes: as `kernels.paged_attention.paged_attention`; the table's parts one by one.

    Raises:
        ValueError: A table that does not fit the arena.
    """
    slots, mask = pad_slots(first_slots, lengths, block_size)
    _require(slots, lengths, len(queries), len(kv))
    n_seqs, longest = slots.shape
    if kv.dtype == torch.uint8:
        keys, values = read_kv(kv, slots.flatten(), queries.shape[-1], backend="torch")
    else:
        keys, values = kv.index_select(0, slots.flatten()).to(torch.float32).unbind(1)
    n_kv_heads, head_dim = keys.shape[1:]
    attended = scaled_dot_product_attention(
        queries.reshape(n_seqs, n_kv_heads, -1, head_dim),
        keys.view(n_seqs, longest, n_kv_heads, head_dim).transpose(1, 2),
        values.view(n_seqs, longest, n_kv_heads, head_dim).transpose(1, 2),
        attn_mask=mask[:, None, None, :],
    )
    return attended.reshape(queries.shape)


def pad_slots(first_slots: Tensor, lengths: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Give the slot of every token, padded with slot 0, and where there is a token.

    Shapes: both (n_seqs, longest).
    """
    n_blocks = (lengths + block_size - 1) // block_size
    if block_size < 1 or int(lengths.min()) < 1 or int(n_blocks.sum()) != len(first_slots):
        raise ValueError(
            f"paged_attention: got {len(first_slots)} blocks of {block_size} for lengths "
            f"{lengths.tolist()}, allowed just as many as they take"
        )
    token = torch.arange(int(lengths.max()), device=lengths.device)
    mask = token < lengths[:, None]
    block = (n_blocks.cumsum(0) - n_blocks)[:, None] + token // block_size
    slots = first_slots[block.clamp(max=len(first_slots) - 1)] + token % block_size
    return torch.where(mask, slots, 0), mask


def _require(slots: Tensor, lengths: Tensor, n_seqs: int, n_slots: int) -> None:
    """Refuse what index_select would read beyond."""
    if len(lengths) != n_seqs:
        raise ValueError(f"paged_attention: got {len(lengths)} lengths for {n_seqs} queries")
    if int(slots.min()) < 0 or int(slots.max()) >= n_slots:
        raise ValueError(
            f"paged_attention: got slots {int(slots.min())} to {int(slots.max())}, allowed 0 to "
            f"{n_slots - 1}"
        )
