"""What the benches work on: logits as models give them, and histories as texts give them.

`peaked` is what a language model says most of the time: a normal bulk with a few dozen tokens far
above. `flat` is the adversary of the nucleus, which then holds most of the vocabulary. Token
frequencies in histories follow Zipf's law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

Shape = Literal["peaked", "flat"]
N_DOMINANT: Final = 64
ZIPF_EXPONENT: Final = 1.1


def make_logits(shape: Shape, n_seqs: int, vocab_size: int, seed: int = 1) -> Tensor:
    """Peaked: N(0, 2) with 64 tokens 10 to 16 above; flat: N(0, 1).

    Shapes: (n_seqs, vocab_size) float32.
    """
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n_seqs, vocab_size), dtype=np.float32)
    if shape == "peaked":
        logits *= 2
        for row in logits:
            dominant = rng.choice(vocab_size, N_DOMINANT, replace=False)
            row[dominant] += rng.uniform(10, 16, N_DOMINANT).astype(np.float32)
    return torch.from_numpy(logits)


def make_histories(n_seqs: int, vocab_size: int, length: int, seed: int = 1) -> list[list[int]]:
    """Token ids whose frequencies fall as rank^-1.1; each row has its own ranking."""
    rng = np.random.default_rng([seed, length])
    weight = np.arange(1, vocab_size + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    reach = np.cumsum(weight) / weight.sum()
    ranks = np.searchsorted(reach, rng.random((n_seqs, length)))
    rows = [rng.permutation(vocab_size)[row.clip(max=vocab_size - 1)] for row in ranks]
    return [row.tolist() for row in rows]
