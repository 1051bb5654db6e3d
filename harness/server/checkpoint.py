"""A model on disk: a Llama-layout folder of `config.json` and safetensors, read and written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from harness.base.errors import RecordError
from harness.server.model import HEAD_WEIGHT, Llama
from harness.server.model_config import CONFIG_FILE, WEIGHTS_FILE, config_to_json, load_config

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from harness.server.model_config import ModelConfig


def load_model(folder: Path, dtype: torch.dtype = torch.float32) -> Llama:
    """Load a Llama-layout safetensors folder, ready for inference (no gradients).

    Raises:
        RecordError: Something is missing, damaged or of another shape; the message names the
            folder, what is wrong and what to do.
    """
    config = load_config(folder)
    stored = _load_tensors(folder)
    model = _build_empty(config)
    if config.tied:
        stored.pop(HEAD_WEIGHT, None)
    _require_match(model, stored, folder)
    model.load_state_dict({name: value.to(dtype) for name, value in stored.items()}, assign=True)
    model.requires_grad_(requires_grad=False)
    return model.eval()


def _build_empty(config: ModelConfig) -> Llama:
    """Build the modules without memory or first values: `_require_match` proves that all are set.

    Drawing first values on the meta device does nothing, but imports torch's compiler to do it:
    two seconds at every start.
    """
    layers: tuple[type[nn.Module], ...] = (nn.Linear, nn.Embedding)
    drawing: list[Any] = [vars(layer)["reset_parameters"] for layer in layers]
    try:
        for layer in layers:
            setattr(layer, "reset_parameters", lambda _: None)  # noqa: B010  a method, for now
        with torch.device("meta"):
            return Llama(config)
    finally:
        for layer, draw in zip(layers, drawing, strict=True):
            setattr(layer, "reset_parameters", draw)  # noqa: B010


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
