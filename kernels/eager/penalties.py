"""Penalties with dense counts, a row of the vocabulary for each request: the torch backend.

Every step gathers the rows that have penalties and works on all of their logits, as serving engines
first wrote it. Contract in `kernels.penalties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from kernels.rows import entries_by_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.penalties import Penalties, PenaltyState

_LARGEST: Final = torch.finfo(torch.float32).max
_LARGEST_SUM: Final = 1e300


class DensePenaltyState:
    """What one request has seen, as rows of the vocabulary.

    Shapes: prompt_seen (vocab_size,) bool; output_counts (vocab_size,) float32.
    """

    def __init__(self, penalties: Penalties, prompt_ids: list[int], *, vocab_size: int) -> None:
        self.penalties = penalties
        self.prompt_seen: NDArray[np.bool_] = np.zeros(vocab_size, np.bool_)
        self.output_counts: NDArray[np.float32] = np.zeros(vocab_size, np.float32)
        self._history: list[int] = []
        self.see(prompt_ids)

    @property
    def vocab_size(self) -> int:
        """Columns of the logits it goes with."""
        return len(self.prompt_seen)

    @property
    def n_generated(self) -> int:
        """Tokens accepted and not taken back."""
        return len(self._history)

    @property
    def n_bytes(self) -> int:
        """Memory it holds, the history at the eight bytes of a list's entry."""
        return self.prompt_seen.nbytes + self.output_counts.nbytes + 8 * len(self._history)

    def see(self, token_ids: list[int]) -> None:
        """Put prompt or forced tokens in."""
        for token_id in token_ids:
            self._require_id(token_id)
        if self.penalties.window != 0:
            self.prompt_seen[token_ids] = True

    def accept(self, token_id: int) -> None:
        """Count a generated token, and forget the one that leaves the window."""
        self._require_id(token_id)
        self._history.append(token_id)
        window, length = self.penalties.window, len(self._history)
        if window != 0:
            self.output_counts[token_id] += 1
        if 0 < window < length:
            self.output_counts[self._history[length - 1 - window]] -= 1

    def rollback(self, n_tokens: int) -> None:
        """Take the last accepted tokens back."""
        if not 0 <= n_tokens <= len(self._history):
            raise ValueError(
                f"n_tokens: got {n_tokens}, allowed 0 to {len(self._history)}, which were accepted"
            )
        window = self.penalties.window
        for _ in range(n_tokens):
            token_id = self._history.pop()
            if window != 0:
                self.output_counts[token_id] -= 1
            if 0 < window <= len(self._history):
                self.output_counts[self._history[-window]] += 1

    def count(self, token_id: int) -> int:
        """How often the token was generated within the window."""
        self._require_id(token_id)
        return int(self.output_counts[token_id])

    def is_seen(self, token_id: int) -> bool:
        """Whether the token stands in the prompt or within the window."""
        self._require_id(token_id)
        return bool(self.prompt_seen[token_id]) or self.count(token_id) > 0

    def _require_id(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"token id: got {token_id}, allowed 0 to {self.vocab_size - 1}")


def apply_penalties(logits: Tensor, states: Sequence[PenaltyState | None]) -> Tensor:
    """Penalise in place the rows that have a state."""
    dense = entries_by_row(logits, states, DensePenaltyState, "states")
    if not dense:
        return logits
    rows, penalised = list(dense), list(dense.values())
    repetition, frequency, presence, decay = logits.new_tensor(
        [
            [each.repetition, each.frequency, each.presence, each.decay]
            for each in (state.penalties for state in penalised)
        ]
    ).T[..., None]
    counts = torch.from_numpy(np.stack([each.output_counts for each in penalised]))
    in_prompt = torch.from_numpy(np.stack([each.prompt_seen for each in penalised]))
    counts, in_prompt = counts.to(logits.device), in_prompt.to(logits.device)
    is_generated = counts > 0
    own = logits[rows]
    scaled = torch.where(own > 0, own / repetition, own * repetition)
    reduced = scaled - _amounts(frequency, decay, counts) - presence
    result = torch.where(is_generated, reduced, scaled)
    logits[rows] = torch.where(in_prompt | is_generated, result, own)
    return logits


def _amounts(frequency: Tensor, decay: Tensor, counts: Tensor) -> Tensor:
    """Give f * (1 + d + ... + d^(c-1)) by looking every count up in a table of its row.

    Shapes: frequency and decay (n_seqs, 1); counts (n_seqs, vocab_size), as the result.
    """
    if bool((decay == 1).all()):
        return frequency * counts
    times = counts.to(torch.int64)
    sums = _geometric_sums(decay.double(), int(times.max())).clamp(max=_LARGEST_SUM)
    amounts = (frequency.double() * sums).clamp(-_LARGEST, _LARGEST)
    return amounts.float().gather(1, times)


def _geometric_sums(decay: Tensor, largest: int) -> Tensor:
    """Give 1 + d + ... + d^(c-1) for c = 0 to `largest`, doubled bit by bit of c.

    No difference is taken, so nothing cancels near d = 1.

    Shapes: decay (n_seqs, 1) float64; result (n_seqs, largest + 1).
    """
    counts = torch.arange(largest + 1, device=decay.device)
    total = torch.zeros((len(decay), largest + 1), dtype=torch.float64, device=decay.device)
    power = torch.ones_like(total)
    for bit in reversed(range(largest.bit_length())):
        is_set = (counts >> bit) & 1 == 1
        total, power = total * (1 + power), power * power
        total = torch.where(is_set, total * decay + 1, total)
        power = torch.where(is_set, power * decay, power)
    return total
