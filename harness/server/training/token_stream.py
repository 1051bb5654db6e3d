"""Text to tokens: the tokenizer, documents as one stream of ids, batches drawn from it by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from harness.base.rng import generator
from harness.server.tokenizer import SPECIAL_TOKENS, TextTokenizer
from harness.server.training.corpus import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

TOKENS_PER_STEP = 4096
LENGTH, LONG_LENGTH, LONG_EVERY = 512, 1024, 4
SNAP_TO_START = 0.3


@dataclass(frozen=True, kw_only=True)
class TokenStream:
    """Documents one after the other as token ids, and where each starts.

    Shapes: ids (n_tokens,); starts (n_documents,), ascending.
    """

    ids: NDArray[np.int64]
    starts: NDArray[np.int64]


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> TextTokenizer:
    """Learn a byte-level BPE; special tokens take the first ids, then come all 256 bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return TextTokenizer(tokenizer)


def encode_document(tokenizer: TextTokenizer, document: Document) -> list[int]:
    """Frame a document: <|bos|>, its text or its turns, <|eos|>."""
    ids = [tokenizer.bos_id]
    if not document.is_chat:
        return [*ids, *tokenizer.encode(document.turns[0]), tokenizer.eos_id]
    for index, turn in enumerate(document.turns):
        role = tokenizer.assistant_id if index % 2 else tokenizer.user_id
        ids += [role, *tokenizer.encode(turn), tokenizer.end_id]
    return [*ids, tokenizer.eos_id]


def build_stream(tokenizer: TextTokenizer, documents: Sequence[Document], seed: int) -> TokenStream:
    """Encode documents in a shuffled order."""
    order = generator(seed, "order").permutation(len(documents))
    encoded = [encode_document(tokenizer, documents[index]) for index in order]
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return TokenStream(ids=np.concatenate(encoded).astype(np.int64), starts=starts)


def draw_batch(stream: TokenStream, seed: int, step: int) -> Tensor:
    """Draw the windows of one step; some begin where a document begins.

    Every fourth batch has half as many windows of twice the length.

    Shapes: (n_windows, length + 1).
    """
    draw = generator(seed, "batch", step)
    length = LONG_LENGTH if step % LONG_EVERY == 0 else LENGTH
    n_windows = TOKENS_PER_STEP // length
    at = draw.integers(0, len(stream.ids) - length - 1, size=n_windows)
    snapped = stream.starts[np.searchsorted(stream.starts, at, side="right") - 1]
    at = np.where(draw.random(n_windows) < SNAP_TO_START, snapped, at)
    return torch.from_numpy(stream.ids[at[:, None] + np.arange(length + 1)])
