"""Attention of one step: every token over its own sequence's keys and values.

Decoding sequences attend together over a padded gather of their slots, longer chunks attend one by
one, causally. The projections around it are the model's (`model`), the order of things
`model_runner`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.scheduler import Chunk


class DecodeBatch(NamedTuple):
    """Sequences with one token each.

    Shapes: slots (n_seqs * longest,) int64, padded with slot 0; mask (n_seqs, 1, 1, longest) bool.
    """

    n_seqs: int
    longest: int
    slots: Tensor
    mask: Tensor


class LongChunk(NamedTuple):
    """Several tokens of one sequence: rows [start, stop) of the flat list.

    Shapes: context_slots (n_context,) int64, None when the chunk is the whole context;
        mask (stop - start, n_context) bool, None likewise.
    """

    start: int
    stop: int
    context_slots: Tensor | None
    mask: Tensor | None


class AttentionInputs(NamedTuple):
    """Who attends over what; rows are those of the step's flat list of tokens."""

    decode: DecodeBatch | None
    long_chunks: list[LongChunk]


def build_attention(chunks: AbstractSequence[Chunk]) -> AttentionInputs:
    """Tell what every chunk attends over. Chunks of one token must stand before longer ones."""
    n_decode = sum(1 for chunk in chunks if chunk.n_tokens == 1)
    row = n_decode
    long_chunks = []
    for sequence, n_tokens in chunks[n_decode:]:
        begin = sequence.n_computed
        long_chunks.append(_long_chunk(row, begin, begin + n_tokens, sequence.slots))
        row += n_tokens
    decode = _decode_batch(chunks[:n_decode]) if n_decode else None
    return AttentionInputs(decode, long_chunks)


def _long_chunk(row: int, begin: int, end: int, slots: np.ndarray) -> LongChunk:
    """Describe a chunk of several tokens; a whole context needs no gather and no mask."""
    n_tokens = end - begin
    if begin == 0:
        return LongChunk(row, row + n_tokens, None, None)
    mask = np.arange(end)[None, :] <= np.arange(begin, end)[:, None]
    return LongChunk(
        row, row + n_tokens, torch.from_numpy(slots[:end].copy()), torch.from_numpy(mask)
    )


def _decode_batch(chunks: AbstractSequence[Chunk]) -> DecodeBatch:
    """Pad the slots of one-token sequences to the longest context."""
    lengths = np.array([chunk.sequence.n_computed + 1 for chunk in chunks])
    longest = int(lengths.max())
    slots = np.zeros((len(chunks), longest), dtype=np.int64)
    for row, chunk in enumerate(chunks):
        slots[row, : lengths[row]] = chunk.sequence.slots[: lengths[row]]
    mask = np.arange(longest)[None, :] < lengths[:, None]
    return DecodeBatch(
        len(chunks),
        longest,
        torch.from_numpy(slots.ravel()),
        torch.from_numpy(mask[:, None, None, :]),
    )


def attend(inputs: AttentionInputs, kv_layer: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend every token of the step over its own sequence.

    Shapes: q (n_tokens, n_heads, head_dim); k and v (n_tokens, n_kv_heads, head_dim); result as q.
    """
    parts = []
    if inputs.decode is not None:
        parts.append(_attend_decode(inputs.decode, kv_layer, q))
    for chunk in inputs.long_chunks:
        rows = slice(chunk.start, chunk.stop)
        if chunk.context_slots is None:
            keys, values = k[rows], v[rows]
        else:
            keys, values = kv_layer.index_select(0, chunk.context_slots).unbind(1)
        attended = scaled_dot_product_attention(
            q[rows].transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            attn_mask=chunk.mask,
            is_causal=chunk.mask is None,
            enable_gqa=True,
        )
        parts.append(attended[0].transpose(0, 1))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend_decode(batch: DecodeBatch, kv_layer: Tensor, q: Tensor) -> Tensor:
    """Attend one query per sequence; the heads that share a key head form the query axis."""
    n_kv_heads, head_dim = kv_layer.shape[-2:]
    context = kv_layer.index_select(0, batch.slots)
    context = context.view(batch.n_seqs, batch.longest, 2, n_kv_heads, head_dim)
    attended = scaled_dot_product_attention(
        q[: batch.n_seqs].view(batch.n_seqs, n_kv_heads, -1, head_dim),
        context[:, :, 0].transpose(1, 2),
        context[:, :, 1].transpose(1, 2),
        attn_mask=batch.mask,
    )
    return attended.reshape(batch.n_seqs, -1, head_dim)
