"""What every op asks of logits that it edits in place: float32 rows, and one entry for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

if TYPE_CHECKING:
    from torch import Tensor


class OfVocabulary(Protocol):
    """An entry that goes with rows of one length."""

    @property
    def vocab_size(self) -> int:
        """Columns of the rows it goes with."""


Entry = TypeVar("Entry", bound=OfVocabulary)


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


def entries_by_row(
    logits: Tensor, entries: Sequence[object], kind: type[Entry], name: str
) -> dict[int, Entry]:
    """Give the torch backend's entries that are there, each by its row.

    Raises:
        ValueError: One is of another backend, or of another vocabulary than the logits.
    """
    found: dict[int, Entry] = {}
    for row, entry in enumerate(entries):
        if entry is None:
            continue
        if not isinstance(entry, kind):
            raise ValueError(f"{name}: got one of another backend, allowed torch's and None")  # noqa: TRY004
        if entry.vocab_size != logits.shape[1]:
            raise ValueError(
                f"{name}: got one of vocab_size {entry.vocab_size}, "
                f"allowed the logits' {logits.shape[1]}"
            )
        found[row] = entry
    return found
