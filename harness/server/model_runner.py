"""Runs one step through the model: all tokens of all sequences of the step at once.

Linear layers see one flat list of tokens; what differs by sequence is in `attention`. Where a
token's key and value lie is read from `sequence.slots`, so all KV layouts take the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from harness.server.attention import AttentionInputs, attend, attends_in_place, build_attention
from harness.server.decoder_layer import DecoderLayer, normalise, sign_halves
from harness.server.device import on_device
from harness.server.matrix import Matrix
from harness.server.model import rope_tables
from harness.server.sequence import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.kv_arena import KvArena
    from harness.server.model import Llama
    from harness.server.phases import Stopwatch
    from harness.server.scheduler import Chunk


class StepInputs(NamedTuple):
    """Everything the forward pass needs to know about a step.

    Shapes: token_ids, positions, slots (n_tokens,) int64; sampled_rows (n_sampled,) int64.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    sampled_rows: Tensor
    attention: AttentionInputs


class ModelRunner:
    """The timed forward pass over the arena."""

    def __init__(self, model: Llama, arena: KvArena, max_model_len: int) -> None:
        self._model = model
        self._layers = [DecoderLayer(block) for block in model.blocks()]
        self._head = Matrix(model.head_weight())
        self._kv = {layout: arena.layers_of(layout) for layout in LAYOUTS}
        self._device = arena.layers.device
        cos, sin = rope_tables(model.config, torch.arange(max_model_len, device=self._device))
        self._cos, self._signed_sin = cos[:, None], sign_halves(sin)[:, None]

    def run(self, chunks: AbstractSequence[Chunk], watch: Stopwatch) -> Tensor:
        """Compute keys and values of every chunk and the logits of those that complete a context.

        Shapes: result (n_completing, vocab_size) float32, in the order of `chunks`.
        """
        layout = chunks[0].sequence.mode.layout
        kv_layers = self._kv[layout]
        in_place = layout != "contiguous" and attends_in_place(kv_layers[0])
        inputs = on_device(build_inputs(chunks, in_place=in_place), self._device)
        watch.lap("mask")
        hidden = self._model.embed(inputs.token_ids)
        cos = self._cos.index_select(0, inputs.positions)
        signed_sin = self._signed_sin.index_select(0, inputs.positions)
        watch.lap("embed")
        for layer, kv_layer in zip(self._layers, kv_layers, strict=True):
            q, kv = layer.qkv(hidden, cos, signed_sin)
            watch.lap("attention")
            kv_layer.write(inputs.slots, kv)
            watch.lap("kv")
            hidden = layer.add_attention(hidden, attend(inputs.attention, kv_layer, q, kv))
            watch.lap("attention")
            hidden = layer.add_feed_forward(hidden)
            watch.lap("ffn")
        if len(inputs.sampled_rows) == 0:
            return torch.empty((0, self._model.config.vocab_size))
        last = hidden.index_select(0, inputs.sampled_rows)
        logits = self._head(normalise(last, self._model.model.norm)).to("cpu", torch.float32)
        watch.lap("sample")
        return logits


def build_inputs(chunks: AbstractSequence[Chunk], *, in_place: bool) -> StepInputs:
    """Lay a step out flat. Chunks of one token must stand before longer ones."""
    token_ids: list[int] = []
    positions, slots, sampled_rows = [], [], []
    for sequence, n_tokens in chunks:
        begin, end = sequence.n_computed, sequence.n_computed + n_tokens
        row = len(token_ids)
        token_ids += sequence.tokens[begin:end]
        positions.append(np.arange(begin, end))
        slots.append(sequence.slots[begin:end])
        if end == len(sequence.tokens):
            sampled_rows.append(row + n_tokens - 1)
    return StepInputs(
        torch.tensor(token_ids),
        torch.from_numpy(np.concatenate(positions)),
        torch.from_numpy(np.concatenate(slots)),
        torch.tensor(sampled_rows, dtype=torch.int64),
        build_attention(chunks, in_place=in_place),
    )
