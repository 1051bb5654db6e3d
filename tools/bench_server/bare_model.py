"""Greedy decoding of a fixed batch in plain torch: the least a server could cost.

What a good engineer writes when there is no server: one fused projection for queries, keys and
values and one for the SwiGLU, rotary angles computed once, keys and values preallocated in the
layout that attention reads, attention by SDPA. Every sequence is as long as the others, none joins
or leaves, nothing is timed, and the next token is the largest logit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from harness.server.model import rope_tables

if TYPE_CHECKING:
    from torch import Tensor

    from harness.server.model import Llama

Product = Callable[["Tensor"], "Tensor"]
"""Multiplies rows by one weight matrix."""


def plain(weight: Tensor) -> Product:
    """Multiply as torch does."""
    return partial(linear, weight=weight)


class Layer(NamedTuple):
    """The weights of one block, those with the same input side by side, ready to multiply by."""

    norm: Tensor
    qkv: Product
    output: Product
    ffn_norm: Tensor
    gate_up: Product
    down: Product


class BareModel:
    """The model's weights, and keys and values of `n_seqs` sequences of up to `longest` tokens."""

    def __init__(
        self,
        model: Llama,
        prepare: Callable[[Tensor], Product] = plain,
        *,
        n_seqs: int,
        longest: int,
    ) -> None:
        config = self._config = model.config
        self._layers = [
            Layer(
                block.input_layernorm.weight,
                prepare(
                    torch.cat([part.weight for part in (attn.q_proj, attn.k_proj, attn.v_proj)])
                ),
                prepare(attn.o_proj.weight),
                block.post_attention_layernorm.weight,
                prepare(torch.cat([block.mlp.gate_proj.weight, block.mlp.up_proj.weight])),
                prepare(block.mlp.down_proj.weight),
            )
            for block in model.blocks()
            for attn in [block.self_attn]
        ]
        self._embedding = model.model.embed_tokens.weight
        self._norm = model.model.norm.weight
        self._head = prepare(model.head_weight())
        cos, sin = rope_tables(config, torch.arange(longest))
        half = config.head_dim // 2
        self._cos, self._sin = cos, torch.cat((-sin[:, :half], sin[:, half:]), dim=-1)
        shape = (config.n_layers, 2, n_seqs, config.n_kv_heads, longest, config.head_dim)
        self._kv = torch.zeros(shape)
        self.n_computed = 0

    def run(self, token_ids: Tensor) -> Tensor:
        """Append tokens to every sequence; give the likeliest next one of each.

        Shapes: (n_seqs, n_tokens) int64 to (n_seqs,) int64.
        """
        n_seqs, n_tokens = token_ids.shape
        config, eps, width = self._config, self._config.norm_eps, (self._config.width,)
        begin, end = self.n_computed, self.n_computed + n_tokens
        heads = (config.n_heads, config.n_kv_heads, config.n_kv_heads)
        cos, sin = self._cos[begin:end, None], self._sin[begin:end, None]
        hidden = self._embedding[token_ids.flatten()]
        for layer, (keys, values) in zip(self._layers, self._kv, strict=True):
            qkv = layer.qkv(rms_norm(hidden, width, layer.norm, eps))
            shaped = qkv.view(n_seqs, n_tokens, -1, config.head_dim)
            q, k, v = shaped.split_with_sizes(heads, dim=2)
            keys[:, :, begin:end] = _rotate(k, cos, sin).transpose(1, 2)
            values[:, :, begin:end] = v.transpose(1, 2)
            attended = _attend(_rotate(q, cos, sin), keys[:, :, :end], values[:, :, :end])
            hidden += layer.output(attended.reshape(n_seqs * n_tokens, -1))
            gate, up = layer.gate_up(rms_norm(hidden, width, layer.ffn_norm, eps)).chunk(2, dim=-1)
            hidden += layer.down(silu(gate).mul_(up))
        self.n_computed = end
        last = hidden.view(n_seqs, n_tokens, -1)[:, -1]
        return self._head(rms_norm(last, width, self._norm, eps)).argmax(dim=-1)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn every head vector: `roll` swaps the halves, `sin` carries their signs."""
    return heads * cos + heads.roll(heads.shape[-1] // 2, dims=-1) * sin


def _attend(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention; one query alone sees everything.

    Shapes: q (n_seqs, n_tokens, n_heads, head_dim); keys and values (n_seqs, n_kv_heads, n_context,
        head_dim); result as q.
    """
    n_seqs, n_tokens, _, head_dim = q.shape
    if n_tokens == 1:
        grouped = q.view(n_seqs, keys.shape[1], -1, head_dim)
        return scaled_dot_product_attention(grouped, keys, values).view(q.shape)
    attended = scaled_dot_product_attention(
        q.transpose(1, 2), keys, values, is_causal=True, enable_gqa=True
    )
    return attended.transpose(1, 2)
