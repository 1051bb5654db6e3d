"""What a model makes of held-out text: bits per byte, and the loss of each token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.server.model import Llama
from harness.server.tokenizer import TextTokenizer
from harness.server.training.token_stream import LENGTH

if TYPE_CHECKING:
    from numpy.typing import NDArray


@torch.inference_mode()
def bits_per_byte(model: Llama, tokenizer: TextTokenizer, ids: NDArray[np.int64]) -> float:
    """Information content the model gives a token stream, per byte of its text.

    bits/byte = sum of -log2 p(token) / bytes of text. Special tokens are predicted and counted in
    the numerator and have no bytes. Windows of `LENGTH` do not overlap, so a token sees at most
    that much context.
    """
    sizes = np.array([len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)])
    n_bytes = int(sizes[ids[1:]].sum())
    nats = 0.0
    for start in range(0, len(ids) - 1, LENGTH * 8):
        piece = torch.from_numpy(ids[start : start + LENGTH * 8 + 1])
        nats += _nats(model, piece)
    return nats / math.log(2) / n_bytes


def _nats(model: Llama, piece: Tensor) -> float:
    """Sum of -ln p over a piece, full windows in one batch and the rest in another."""
    inputs, targets = piece[:-1], piece[1:]
    full = len(inputs) // LENGTH * LENGTH
    total = 0.0
    for rows, wanted in (
        (inputs[:full].reshape(-1, LENGTH), targets[:full]),
        (inputs[full:].reshape(1, -1), targets[full:]),
    ):
        if len(wanted):
            logits = model(rows).flatten(0, 1)
            total += functional.cross_entropy(logits, wanted, reduction="sum").item()
    return total


@torch.inference_mode()
def window_nats(model: Llama, ids: NDArray[np.int64], length: int) -> NDArray[np.float32]:
    """-ln p of every token of the full windows of a stream, window by window.

    Shapes: ids (n_tokens,); result (n_tokens // length, length).
    """
    rows = []
    for start in range(0, len(ids) - length, length):
        piece = torch.from_numpy(ids[start : start + length + 1])
        logits = model(piece[None, :-1])[0]
        rows.append(functional.cross_entropy(logits, piece[1:], reduction="none").numpy())
    return np.stack(rows)
