"""Attention of one step: every token over its own sequence's keys and values.

Decoding sequences attend together: over their blocks where they lie, by the native kernel, or over
a padded gather of their slots. Longer chunks attend one by one, causally. What a packed layer kept
is what everybody attends over, the chunk itself included: answers then depend neither on chunks nor
on evictions. The projections around it are the model's (`model`), the order `model_runner`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.server.block_manager import BLOCK_SIZE
from kernels.backend import has_native
from kernels.paged_attention import ContextTable, is_native_size, paged_attention

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.kv_layer import KvLayer
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

    Shapes: context_slots (n_context,) int64; mask (stop - start, n_context) bool, None when the
        chunk is the whole context.
    """

    start: int
    stop: int
    context_slots: Tensor
    mask: Tensor | None


class AttentionInputs(NamedTuple):
    """Who attends over what; rows are those of the step's flat list of tokens."""

    decode: DecodeBatch | ContextTable | None
    long_chunks: list[LongChunk]


def attends_in_place(layer: KvLayer) -> bool:
    """Whether paged attention takes a paged layer as it lies, rather than a gather of it."""
    if layer.is_lossy:
        return True
    is_plain = layer.data.device.type == "cpu" and layer.data.dtype == torch.float32
    return is_plain and has_native() and is_native_size(layer.data.shape[-1])


def build_attention(chunks: AbstractSequence[Chunk], *, in_place: bool) -> AttentionInputs:
    """Tell what every chunk attends over. Chunks of one token must stand before longer ones."""
    n_decode = sum(1 for chunk in chunks if chunk.n_tokens == 1)
    row = n_decode
    long_chunks = []
    for sequence, n_tokens in chunks[n_decode:]:
        begin = sequence.n_computed
        long_chunks.append(_long_chunk(row, begin, begin + n_tokens, sequence.slots))
        row += n_tokens
    if n_decode == 0:
        return AttentionInputs(None, long_chunks)
    batch = _context_table if in_place else _decode_batch
    return AttentionInputs(batch(chunks[:n_decode]), long_chunks)


def _long_chunk(row: int, begin: int, end: int, slots: np.ndarray) -> LongChunk:
    """Describe a chunk of several tokens; a whole context needs no mask."""
    mask = None
    if begin > 0:
        mask = torch.from_numpy(np.arange(end)[None, :] <= np.arange(begin, end)[:, None])
    return LongChunk(row, row + end - begin, torch.from_numpy(slots[:end].copy()), mask)


def _context_table(chunks: AbstractSequence[Chunk]) -> ContextTable:
    """Name the first slot of every block."""
    lengths = [chunk.sequence.n_computed + 1 for chunk in chunks]
    first = [
        chunk.sequence.slots[:length:BLOCK_SIZE]
        for chunk, length in zip(chunks, lengths, strict=True)
    ]
    return ContextTable(torch.from_numpy(np.concatenate(first)), torch.tensor(lengths), BLOCK_SIZE)


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


def attend(inputs: AttentionInputs, layer: KvLayer, q: Tensor, kv: Tensor) -> Tensor:
    """Attend every token of the step over its own sequence, whose `kv` the layer already holds.

    Shapes: q (n_tokens, n_heads, head_dim); kv (n_tokens, 2, n_kv_heads, head_dim); result as q.
    """
    parts = []
    if isinstance(inputs.decode, ContextTable):
        queries = q[: len(inputs.decode.lengths)].float()
        parts.append(paged_attention(queries, layer.data, inputs.decode).to(q.dtype))
    elif inputs.decode is not None:
        parts.append(_attend_decode(inputs.decode, layer.data, q))
    parts += [_attend_chunk(chunk, layer, q, kv) for chunk in inputs.long_chunks]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend_chunk(chunk: LongChunk, layer: KvLayer, q: Tensor, kv: Tensor) -> Tensor:
    """Attend a chunk; one that is the whole context has its keys and values at hand."""
    rows = slice(chunk.start, chunk.stop)
    if chunk.mask is None and not layer.is_lossy:
        keys, values = kv[rows].unbind(1)
    else:
        keys, values = layer.read(chunk.context_slots)
    attended = scaled_dot_product_attention(
        q[rows].transpose(0, 1)[None],
        keys.to(q.dtype).transpose(0, 1)[None],
        values.to(q.dtype).transpose(0, 1)[None],
        attn_mask=chunk.mask,
        is_causal=chunk.mask is None,
        enable_gqa=True,
    )
    return attended[0].transpose(0, 1)


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
