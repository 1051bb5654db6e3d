"""The shape of a model, and Hugging Face's `config.json` that tells it.

What this server does not compute is refused here, by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.base.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"


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

    def kv_bytes_per_token(self, itemsize: int) -> int:
        """Bytes of keys and values one token occupies over all layers.

        Units: bytes; `itemsize` in bytes per element.
        """
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * itemsize


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
