"""Decode attention over paged keys and values: one query token per sequence, grouped heads.

Contract, dispatch and the float64 reference. Keys and values lie anywhere in an arena, in blocks
that need not be neighbours; a `ContextTable` tells where each sequence's are. The formats are
float32, bfloat16, and packed records of FP8 keys and INT4 values (`kernels.kv_record`).
Not here: prompts (several query tokens need a causal mask), and penalties, which come after.
Source: Kwon et al., PagedAttention, 2023; Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import paged_attention as eager
from kernels.kv_record import record_size

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend


class ContextTable(NamedTuple):
    """Where contexts lie: token t of a sequence in slot `first_slots[t // block_size] + t % ...`.

    Shapes: first_slots (n_blocks,) int64, the blocks of one sequence after those of another, each
        sequence with just as many as its length takes; lengths (n_seqs,) int64, above 0.
    """

    first_slots: Tensor
    lengths: Tensor
    block_size: int


def paged_attention(
    queries: Tensor, kv: Tensor, table: ContextTable, *, backend: Backend | None = None
) -> Tensor:
    """Give softmax(q k / sqrt(head_dim)) v of every sequence and head.

    Query heads come in groups; those of group g attend over key head g. Long work is shared among
    torch's number of threads, which changes no bit. The native kernel takes
    head_dim in multiples of 16 up to 128; by default other sizes go to torch.

    Shapes: queries (n_seqs, n_heads, head_dim) float32; kv (n_slots, 2, n_kv_heads, head_dim)
        float32 or bfloat16, or packed (n_slots, n_kv_heads, record_size) uint8; result as queries.

    Raises:
        ValueError: Shapes that do not fit each other, or a slot outside the arena.
        BackendError: The asked backend cannot run here.
    """
    head_dim = queries.shape[-1]
    _require(queries, kv)
    if backend is None and not is_native_size(head_dim):
        backend = "torch"
    if choose_backend("paged_attention", str(queries.device), backend) == "torch":
        return eager.paged_attention(queries, kv, *table)
    results = torch.empty(queries.shape)
    cpu.native.paged_attention(
        queries.detach().contiguous().numpy(),
        (kv.view(torch.uint16) if kv.dtype == torch.bfloat16 else kv).numpy(),
        table.first_slots.numpy(),
        table.lengths.numpy(),
        table.block_size,
        head_dim**-0.5,
        torch.get_num_threads(),
        results.numpy(),
    )
    return results


def is_native_size(head_dim: int) -> bool:
    """Whether the native kernel takes heads of this size."""
    return head_dim % 16 == 0 and head_dim <= 128


def _require(queries: Tensor, kv: Tensor) -> None:
    """Refuse what no backend can attend over."""
    if queries.dim() != 3 or queries.dtype != torch.float32:
        raise ValueError(
            f"paged_attention: got queries {tuple(queries.shape)} {queries.dtype}, allowed "
            "(n_seqs, n_heads, head_dim) torch.float32"
        )
    head_dim = queries.shape[-1]
    if kv.dtype == torch.uint8:
        fits = kv.dim() == 3 and kv.shape[2] == record_size(head_dim)
    else:
        fits = kv.dtype in {torch.float32, torch.bfloat16} and kv.dim() == 4
        fits = fits and kv.shape[1] == 2 and kv.shape[3] == head_dim
    if (
        not fits
        or queries.shape[1] % kv.shape[-2 if kv.dim() == 4 else 1]
        or not kv.is_contiguous()
    ):
        raise ValueError(
            f"paged_attention: got keys and values {tuple(kv.shape)} {kv.dtype}, allowed a "
            f"contiguous (n_slots, 2, n_kv_heads, {head_dim}) float32 or bfloat16, or (n_slots, "
            f"n_kv_heads, {record_size(head_dim)}) uint8, n_kv_heads dividing {queries.shape[1]}"
        )


def reference_paged_attention(
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    values: NDArray[np.float64],
    contexts: list[list[int]],
) -> NDArray[np.float64]:
    """Attend head by head over the slots of each context.

    Shapes: queries (n_seqs, n_heads, head_dim); keys and values (n_slots, n_kv_heads, head_dim).
    """
    n_heads, head_dim = queries.shape[1:]
    group = n_heads // keys.shape[1]
    result = np.zeros(queries.shape)
    for row, slots in enumerate(contexts):
        for head in range(n_heads):
            scores = keys[slots, head // group] @ queries[row, head] / np.sqrt(head_dim)
            weights = np.exp(scores - scores.max())
            result[row, head] = weights @ values[slots, head // group] / weights.sum()
    return result
