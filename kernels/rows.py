"""What every op asks of logits that it edits in place: float32 rows, and one entry for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def require_rows(logits: Tensor, entries: Sequence[object], name: str) -> None:
    """Refuse logits of another kind, and `entries` that are not one for each row.

    Shapes: logits (n_seqs, vocab_size) float32; entries (n_seqs,).
    """
    if logits.dtype is not torch.float32 or logits.ndim != 2:
        raise ValueError(
            f"logits: got {logits.dtype} of {logits.ndim} axes, "
            "allowed float32 (n_seqs, vocab_size)"
        )
    if len(entries) != len(logits):
        raise ValueError(
            f"{name}: got {len(entries)}, allowed one (or None) for each of the {len(logits)} rows"
        )
