"""The Llama-layout language model in plain torch: norm, rotary positions, grouped queries, SwiGLU.

Written in two halves. A `Block` exposes its projections (`qkv`, `attention_output`, `feed_forward`)
over a flat list of tokens, so that an engine can keep keys and values wherever it likes and
batch tokens of many sequences. `Llama.forward` puts the same halves together as a full causal pass:
it trains the model and is the oracle every engine path is compared with.
Weights carry the Hugging Face names, so any Llama-layout safetensors folder can be loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from harness.base.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
HEAD_WEIGHT = "lm_head.weight"
EMBEDDING_WEIGHT = "model.embed_tokens.weight"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one model.

    Attributes:
        vocab_size: Rows of the embedding, which is also the output head when `tied` is true.
        width: Size of the residual stream.
        n_heads: Query heads; `n_kv_heads` divides it, each key/value head serves one group.
        ffn_width: Size of the SwiGLU's hidden layer.
        max_context: Longest sequence the model is offered for, in tokens.
    """

    vocab_size: int = 4096
    width: int = 192
    n_layers: int = 4
    n_heads: int = 6
    n_kv_heads: int = 2
    head_dim: int = 32
    ffn_width: int = 512
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    max_context: int = 2048
    tied: bool = True
    bos_id: int = 0
    eos_id: int = 1

    @property
    def n_groups(self) -> int:
        """Query heads per key/value head."""
        return self.n_heads // self.n_kv_heads

    def kv_bytes_per_token(self, itemsize: int) -> int:
        """Bytes of keys and values one token occupies over all layers.

        Units: bytes; `itemsize` in bytes per element.
        """
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * itemsize


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


def config_to_json(config: ModelConfig) -> dict[str, object]:
    """The configuration under the key names of Hugging Face's `config.json`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "intermediate_size": config.ffn_width,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "max_position_embeddings": config.max_context,
        "tie_word_embeddings": config.tied,
        "bos_token_id": config.bos_id,
        "eos_token_id": config.eos_id,
    }


def config_from_json(raw: dict[str, object], source: str) -> ModelConfig:
    """Read a Hugging Face `config.json`, refusing what this implementation does not compute.

    Raises:
        RecordError: A key is missing, or the model is not a plain Llama; `source` is named.
    """
    problems = list(_unsupported(raw))
    required = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    missing = [key for key in (*required, "num_attention_heads") if key not in raw]
    if missing:
        problems.append(f"keys missing: {', '.join(missing)}")
    if problems:
        raise RecordError(
            f"{source}: not a Llama-layout model this server can run: {'; '.join(problems)}. "
            "Choose a model with model_type llama and plain rotary positions."
        )
    return _config_from_checked(raw, source)


def _config_from_checked(raw: dict[str, object], source: str) -> ModelConfig:
    """Map the key names; numbers of a wrong type are reported with their source."""
    rope = raw.get("rope_parameters")
    rope_values = rope if isinstance(rope, dict) else {}
    try:
        n_heads, width = _integer(raw, "num_attention_heads"), _integer(raw, "hidden_size")
        config = ModelConfig(
            vocab_size=_integer(raw, "vocab_size"),
            width=width,
            n_layers=_integer(raw, "num_hidden_layers"),
            n_heads=n_heads,
            n_kv_heads=_integer(raw, "num_key_value_heads", n_heads),
            head_dim=_integer(raw, "head_dim", width // n_heads),
            ffn_width=_integer(raw, "intermediate_size"),
            rope_theta=_number(rope_values | raw, "rope_theta", 10000.0),
            norm_eps=_number(raw, "rms_norm_eps", 1e-6),
            max_context=_integer(raw, "max_position_embeddings", 2048),
            tied=bool(raw.get("tie_word_embeddings", False)),
            bos_id=_integer(raw, "bos_token_id", 1),
            eos_id=_integer(raw, "eos_token_id", 2),
        )
    except (TypeError, ZeroDivisionError) as error:
        raise RecordError(f"{source}: unreadable value: {error}. Restore the file.") from error
    if config.n_kv_heads < 1 or config.n_heads % config.n_kv_heads:
        raise RecordError(
            f"{source}: num_key_value_heads {config.n_kv_heads} must divide "
            f"num_attention_heads {config.n_heads}. Restore the file."
        )
    return config


def _unsupported(raw: dict[str, object]) -> Iterator[str]:
    """Name every setting that would change the arithmetic this module implements."""
    if raw.get("model_type", "llama") != "llama":
        yield f"model_type is {raw['model_type']!r}, allowed 'llama'"
    if raw.get("hidden_act", "silu") != "silu":
        yield f"hidden_act is {raw['hidden_act']!r}, allowed 'silu'"
    for key in ("attention_bias", "mlp_bias"):
        if raw.get(key):
            yield f"{key} is true, allowed false"
    for key in ("rope_scaling", "rope_parameters"):
        rope = raw.get(key)
        if isinstance(rope, dict):
            kind = rope.get("rope_type", rope.get("type", "default"))
            if kind != "default":
                yield f"{key} asks for {kind!r}, allowed 'default'"


def _integer(raw: dict[str, object], key: str, default: int | None = None) -> int:
    """Read an integer; a null counts as absent, the first of a list is taken (several stop ids)."""
    value = raw.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} is {value!r}, expected an integer")
    return value


def _number(raw: dict[str, object], key: str, default: float) -> float:
    """Read a number; a null counts as absent."""
    value = raw.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{key} is {value!r}, expected a number")
    return float(value)


def load_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a model folder.

    Raises:
        RecordError: The file is missing, is not JSON, or is not a Llama this server can run.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise RecordError(
            f"{folder}: no {CONFIG_FILE} there. Give a folder that holds {CONFIG_FILE}, "
            f"{WEIGHTS_FILE} and tokenizer.json."
        )
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: not valid JSON ({error}). Restore the file.") from error
    if not isinstance(raw, dict):
        raise RecordError(f"{path}: expected a JSON object, got {type(raw).__name__}.")
    return config_from_json(raw, str(path))


def load_model(folder: Path, dtype: torch.dtype = torch.float32) -> Llama:
    """Load a Llama-layout safetensors folder, ready for inference (no gradients).

    Raises:
        RecordError: Something is missing, damaged or of another shape; the message names the
            folder, what is wrong and what to do.
    """
    config = load_config(folder)
    stored = _load_tensors(folder)
    # Without initialisation: every parameter is replaced below, and `_require_match` proves it.
    with torch.device("meta"):
        model = Llama(config)
    if config.tied:
        stored.pop(HEAD_WEIGHT, None)
    _require_match(model, stored, folder)
    model.load_state_dict({name: value.to(dtype) for name, value in stored.items()}, assign=True)
    model.requires_grad_(requires_grad=False)
    return model.eval()


def _load_tensors(folder: Path) -> dict[str, Tensor]:
    """Read every safetensors file of the folder (a large model comes in several)."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise RecordError(
            f"{folder}: no {WEIGHTS_FILE} there. Restore it, or retrain with "
            "`python -m harness.server.training.train`."
        )
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise RecordError(
                f"{file}: damaged weights ({error}). Restore the file, or retrain with "
                "`python -m harness.server.training.train`."
            ) from error
    # Old exports store the rotary frequencies, which are computed here.
    return {name: value for name, value in tensors.items() if "rotary_emb" not in name}


def _require_match(model: Llama, stored: dict[str, Tensor], folder: Path) -> None:
    """Refuse weights whose names or shapes are not exactly the model's."""
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in stored.items()}
    problems = [f"missing {name}" for name in expected.keys() - found.keys()]
    problems += [f"unknown {name}" for name in found.keys() - expected.keys()]
    problems += [
        f"{name} has shape {found[name]}, {CONFIG_FILE} says {expected[name]}"
        for name in expected.keys() & found.keys()
        if found[name] != expected[name]
    ]
    if problems:
        shown = "; ".join(sorted(problems)[:5])
        raise RecordError(
            f"{folder}: the weights do not fit {CONFIG_FILE} ({len(problems)} problems: {shown}). "
            "Use weights and configuration of the same model."
        )


def save_model(model: Llama, folder: Path) -> None:
    """Write `config.json` and the weights as bfloat16, each replaced atomically.

    The bytes depend on the parameters only, so equal models make equal files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: value.detach().to("cpu", torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
    }
    weights = folder / f"{WEIGHTS_FILE}.part"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # the library writes for the owner only
    weights.replace(folder / WEIGHTS_FILE)
    config = folder / f"{CONFIG_FILE}.part"
    text = json.dumps(config_to_json(model.config), indent=2) + "\n"
    config.write_text(text, encoding="utf-8")
    config.replace(folder / CONFIG_FILE)
