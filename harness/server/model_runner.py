"""Runs one step through the model: all tokens of all sequences of the step at once.

Linear layers see one flat list of tokens. Attention differs by sequence: decoding sequences attend
together over a padded gather of their slots, longer chunks attend one by one, causally. Where a
token's key and value lie is read from `sequence.slots`, so both KV layouts take the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.server.model import rope_tables

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.kv_arena import KvArena
    from harness.server.model import Llama
    from harness.server.phases import Stopwatch
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


class StepInputs(NamedTuple):
    """Everything the forward pass needs to know about a step.

    Shapes: token_ids, positions, slots (n_tokens,) int64; sampled_rows (n_sampled,) int64.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    sampled_rows: Tensor
    decode: DecodeBatch | None
    long_chunks: list[LongChunk]


class ModelRunner:
    """The timed forward pass over the arena."""

    def __init__(self, model: Llama, arena: KvArena, max_model_len: int) -> None:
        self._model = model
        self._blocks = list(model.blocks())
        self._arena = arena
        positions = torch.arange(max_model_len)
        self._cos, self._sin = rope_tables(model.config, positions)

    def run(self, chunks: AbstractSequence[Chunk], watch: Stopwatch) -> Tensor:
        """Compute keys and values of every chunk and the logits of those that complete a context.

        Shapes: result (n_completing, vocab_size) float32, in the order of `chunks`.
        """
        inputs = build_inputs(chunks)
        watch.lap("mask")
        hidden = self._model.embed(inputs.token_ids)
        cos = self._cos.index_select(0, inputs.positions)
        sin = self._sin.index_select(0, inputs.positions)
        watch.lap("embed")
        for block, kv_layer in zip(self._blocks, self._arena.layers.unbind(0), strict=True):
            q, k, v = block.qkv(hidden, cos, sin)
            watch.lap("attention")
            kv_layer.index_copy_(0, inputs.slots, torch.stack((k, v), dim=1))
            watch.lap("kv")
            hidden = hidden + block.attention_output(_attend(inputs, kv_layer, q, k, v))
            watch.lap("attention")
            hidden = hidden + block.feed_forward(hidden)
            watch.lap("ffn")
        if len(inputs.sampled_rows) == 0:
            return hidden.new_empty((0, self._model.config.vocab_size))
        logits = self._model.logits(hidden.index_select(0, inputs.sampled_rows))
        watch.lap("sample")
        return logits


def build_inputs(chunks: AbstractSequence[Chunk]) -> StepInputs:
    """Lay a step out flat. Chunks of one token must stand before longer ones."""
    token_ids: list[int] = []
    positions, slots, sampled_rows = [], [], []
    n_decode = sum(1 for chunk in chunks if chunk.n_tokens == 1)
    long_chunks = []
    for sequence, n_tokens in chunks:
        begin, end = sequence.n_computed, sequence.n_computed + n_tokens
        row = len(token_ids)
        token_ids += sequence.tokens[begin:end]
        positions.append(np.arange(begin, end))
        slots.append(sequence.slots[begin:end])
        if end == len(sequence.tokens):
            sampled_rows.append(row + n_tokens - 1)
        if n_tokens > 1:
            long_chunks.append(_long_chunk(row, begin, end, sequence.slots))
    return StepInputs(
        torch.tensor(token_ids),
        torch.from_numpy(np.concatenate(positions)),
        torch.from_numpy(np.concatenate(slots)),
        torch.tensor(sampled_rows, dtype=torch.int64),
        _decode_batch(chunks[:n_decode]) if n_decode else None,
        long_chunks,
    )


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


def _attend(inputs: StepInputs, kv_layer: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
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
