"""The Llama-layout language model in plain torch: norm, rotary positions, grouped queries, SwiGLU.

Written in two halves. A `Block` exposes its projections (`qkv`, `attention_output`, `feed_forward`)
over a flat list of tokens, so that an engine can keep keys and values wherever it likes and
batch tokens of many sequences. `Llama.forward` puts the same halves together as a full causal pass:
it trains the model and is the oracle every engine path is compared with.
Weights carry the Hugging Face names, so any Llama-layout safetensors folder can be loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.server.model_config import ModelConfig

HEAD_WEIGHT = "lm_head.weight"


def rope_tables(config: ModelConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, `angle[t, i] = positions[t] / theta^(2i/head_dim)`.

    Both halves of a row are equal (the rotate-half convention of Hugging Face's Llama).

    Shapes: positions (n_tokens,) integer; each result (n_tokens, head_dim), float32.
    Source: Su et al., RoFormer, section 3.4.2.
    """
    exponent = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32)
    frequency = config.rope_theta ** (-exponent / config.head_dim)
    angle = positions.to(torch.float32)[:, None] * frequency[None, :]
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn every head vector by its token's angles.

    Shapes: heads (..., n_tokens, n_heads, head_dim); cos and sin (n_tokens, head_dim).
    """
    low, high = heads.chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return heads * cos[:, None, :].to(heads.dtype) + turned * sin[:, None, :].to(heads.dtype)


class RMSNorm(nn.Module):
    """`x / sqrt(mean(x^2) + eps) * weight`, the mean taken in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise the last axis."""
        wide = hidden.to(torch.float32)
        scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.eps)
        return scaled.to(hidden.dtype) * self.weight


class Attention(nn.Module):
    """The four projections of grouped-query attention; the attending itself is the caller's."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        q_width, kv_width = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.width, q_width, bias=False)
        self.k_proj = nn.Linear(config.width, kv_width, bias=False)
        self.v_proj = nn.Linear(config.width, kv_width, bias=False)
        self.o_proj = nn.Linear(q_width, config.width, bias=False)


class FeedForward(nn.Module):
    """SwiGLU: `down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.up_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.down_proj = nn.Linear(config.ffn_width, config.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (..., width) to (..., width)."""
        gated = functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden)
        return cast("Tensor", self.down_proj(gated))


class Block(nn.Module):
    """One decoder layer, in the pieces an engine needs around its own attention.

    Every method also takes leading batch axes in front of `n_tokens`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = RMSNorm(config.width, config.norm_eps)
        self.post_attention_layernorm = RMSNorm(config.width, config.norm_eps)

    def qkv(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise, project and rotate: what attention and the KV cache take.

        Shapes: hidden (n_tokens, width); q (n_tokens, n_heads, head_dim);
            k and v (n_tokens, n_kv_heads, head_dim).
        """
        normed = self.input_layernorm(hidden)
        head = (-1, self.config.head_dim)
        q = self.self_attn.q_proj(normed).unflatten(-1, head)
        k = self.self_attn.k_proj(normed).unflatten(-1, head)
        v = self.self_attn.v_proj(normed).unflatten(-1, head)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def attention_output(self, attended: Tensor) -> Tensor:
        """Project the attended heads back, to be added to the residual.

        Shapes: attended (n_tokens, n_heads, head_dim); result (n_tokens, width).
        """
        return cast("Tensor", self.self_attn.o_proj(attended.flatten(-2)))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """Normalise and apply the SwiGLU, to be added to the residual.

        Shapes: (n_tokens, width) to (n_tokens, width).
        """
        return cast("Tensor", self.mlp(self.post_attention_layernorm(hidden)))


class Decoder(nn.Module):
    """Holds the parameters under the names of the Hugging Face layout (`model.*`)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.width, config.norm_eps)


class Llama(nn.Module):
    """The whole model; `state_dict()` keys follow the Hugging Face Llama layout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocab_size, bias=False)

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder's blocks, first to last."""
        return self.model.layers

    def blocks(self) -> Iterator[Block]:
        """The same blocks, typed."""
        return (cast("Block", layer) for layer in self.model.layers)

    def head_weight(self) -> Tensor:
        """The output matrix (vocab_size, width): the embedding when the two are tied."""
        return self.model.embed_tokens.weight if self.config.tied else self.lm_head.weight

    def embed(self, token_ids: Tensor) -> Tensor:
        """Look tokens up.

        Shapes: (n_tokens,) integer to (n_tokens, width).
        """
        return cast("Tensor", self.model.embed_tokens(token_ids))

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and output head.

        Shapes: (n, width) to (n, vocab_size), float32 whatever the model's dtype.
        """
        return functional.linear(self.model.norm(hidden), self.head_weight()).to(torch.float32)

    def hidden_states(self, token_ids: Tensor) -> Tensor:
        """Run every block over full sequences, causally, before the final norm.

        Shapes: (batch, length) integer to (batch, length, width).
        """
        positions = torch.arange(token_ids.shape[-1], device=token_ids.device)
        cos, sin = rope_tables(self.config, positions)
        hidden = self.embed(token_ids)
        for block in self.blocks():
            q, k, v = block.qkv(hidden, cos, sin)
            hidden = hidden + block.attention_output(causal_attention(q, k, v))
            hidden = hidden + block.feed_forward(hidden)
        return hidden

    def forward(self, token_ids: Tensor) -> Tensor:
        """Score the next token at every position of full sequences.

        Shapes: (batch, length) integer to (batch, length, vocab_size), float32.
        """
        return self.logits(self.hidden_states(token_ids))


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Grouped-query attention in which a token sees itself and what came before.

    Query head h reads key/value head h // n_groups; weights are softmax(q.k / sqrt(head_dim)).

    Shapes: q (batch, length, n_heads, head_dim); k and v (batch, length, n_kv_heads, head_dim);
        result as q.
    """
    n_groups = q.shape[-2] // k.shape[-2]
    attended = functional.scaled_dot_product_attention(
        q.transpose(-3, -2),
        k.repeat_interleave(n_groups, dim=-2).transpose(-3, -2),
        v.repeat_interleave(n_groups, dim=-2).transpose(-3, -2),
        is_causal=True,
    )
    return attended.transpose(-3, -2)
