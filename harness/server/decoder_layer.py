"""One decoder layer as the engine runs it: a block's weights, laid out for few and large products.

What has the same input is one matrix: queries, keys and values, and the two halves of the SwiGLU.
The block (`model`) keeps its parameters, which are views of these matrices, and stays what trains
and what the engine is checked against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import rms_norm, silu

from harness.server.matrix import Matrix

if TYPE_CHECKING:
    from torch import Tensor, nn

    from harness.server.model import Block, RMSNorm


class DecoderLayer:
    """The pieces an engine needs around its own attention, over a flat list of tokens."""

    def __init__(self, block: Block) -> None:
        attention, ffn, config = block.self_attn, block.mlp, block.config
        self._head_dim = config.head_dim
        self._n_heads, self._n_kv_heads = config.n_heads, config.n_kv_heads
        self._norm, self._ffn_norm = block.input_layernorm, block.post_attention_layernorm
        self._qkv = Matrix(_join(attention.q_proj, attention.k_proj, attention.v_proj))
        self._output = Matrix(attention.o_proj.weight)
        self._gate_up = Matrix(_join(ffn.gate_proj, ffn.up_proj))
        self._down = Matrix(ffn.down_proj.weight)

    def qkv(self, hidden: Tensor, cos: Tensor, signed_sin: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise, project and rotate: what attention and the KV cache take.

        Shapes: hidden (n_tokens, width); cos and signed_sin (n_tokens, 1, head_dim), see
            `sign_halves`; q (n_tokens, n_heads, head_dim); keys beside values
            (n_tokens, 2, n_kv_heads, head_dim).
        """
        projected = self._qkv(normalise(hidden, self._norm))
        heads = projected.view(len(hidden), -1, self._head_dim)
        turning = heads[:, : self._n_heads + self._n_kv_heads]
        turned = turning.roll(self._head_dim // 2, dims=-1).mul_(signed_sin)
        turning.mul_(cos).add_(turned)
        kv = heads[:, self._n_heads :]
        return heads[:, : self._n_heads], kv.view(len(hidden), 2, -1, self._head_dim)

    def add_attention(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Project the attended heads back and add them to the residual, in place.

        Shapes: hidden (n_tokens, width); attended (n_tokens, n_heads, head_dim).
        """
        return hidden.add_(self._output(attended.flatten(-2)))

    def add_feed_forward(self, hidden: Tensor) -> Tensor:
        """Normalise, apply the SwiGLU and add it to the residual, in place.

        Shapes: hidden (n_tokens, width).
        """
        gate, up = self._gate_up(normalise(hidden, self._ffn_norm)).chunk(2, dim=-1)
        return hidden.add_(self._down(silu(gate).mul_(up)))


def normalise(hidden: Tensor, norm: RMSNorm) -> Tensor:
    """Apply a norm, in the form that torch has ready.

    Shapes: (n_tokens, width) to the same.
    """
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.eps)


def sign_halves(sin: Tensor) -> Tensor:
    """Let the sines carry the sign of the half that a rotation swaps in.

    `rotate(x) = x * cos + swap(x) * signed_sin`, where `swap` exchanges the two halves of a head.

    Shapes: (n_positions, head_dim) to the same.
    """
    low, high = sin.chunk(2, dim=-1)
    return torch.cat((-low, high), dim=-1)


def _join(*layers: nn.Linear) -> Tensor:
    """Put the weights of layers below each other; the layers keep views, so that none is twice."""
    joined = torch.cat([layer.weight.detach() for layer in layers])
    parts = joined.split_with_sizes([layer.out_features for layer in layers])
    for layer, part in zip(layers, parts, strict=True):
        layer.weight.data = part
    return joined
