"""Attention of a decode step over paged keys and values, in float32 and in packed records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from kernels.bench.case import BACKENDS, Case
from kernels.bench.timing import Contender
from kernels.kv_record import record_size, write_kv
from kernels.paged_attention import ContextTable, paged_attention

if TYPE_CHECKING:
    from torch import Tensor

N_HEADS, N_KV_HEADS, HEAD_DIM, BLOCK = 9, 3, 64, 16
"""As in a model of 135 M parameters."""


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Eight sequences at three contexts."""
    for context in (32,) if is_quick else (128, 1024, 4096):
        for is_packed in (False, True):
            yield _case(2 if is_quick else 8, context, is_packed=is_packed)


def _case(n_seqs: int, context: int, *, is_packed: bool) -> Case:
    per_token = record_size(HEAD_DIM) if is_packed else 2 * 4 * HEAD_DIM
    return Case(
        op="paged_attention",
        shape=f"B={n_seqs} context {context}, " + ("FP8 K, INT4 V" if is_packed else "float32"),
        n_bytes=n_seqs * context * N_KV_HEADS * per_token,
        n_items=n_seqs * context,
        item="tokens",
        contenders=lambda: list(_contenders(n_seqs, context, is_packed=is_packed)),
    )


def _contenders(n_seqs: int, context: int, *, is_packed: bool) -> Iterator[Contender]:
    chance = torch.Generator().manual_seed(1)
    n_slots = n_seqs * context
    queries = torch.randn((n_seqs, N_HEADS, HEAD_DIM), generator=chance)
    kv = torch.randn((n_slots, 2, N_KV_HEADS, HEAD_DIM), generator=chance)
    blocks = torch.randperm(n_slots // BLOCK, generator=chance)
    table = ContextTable(blocks * BLOCK, torch.full((n_seqs,), context), BLOCK)
    held = _pack(kv) if is_packed else kv
    for backend in BACKENDS:
        yield Contender(
            name=backend, run=partial(paged_attention, queries, held, table, backend=backend)
        )


def _pack(kv: Tensor) -> Tensor:
    records = torch.empty((len(kv), N_KV_HEADS, record_size(HEAD_DIM)), dtype=torch.uint8)
    write_kv(records, torch.arange(len(kv)), kv[:, 0], kv[:, 1])
    return records
