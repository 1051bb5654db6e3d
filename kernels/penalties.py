"""Sampling penalties: what makes a model repeat itself less.

Contract, dispatch and the reference. The order is repetition, then frequency, then presence; it
does not commute. Repetition counts prompt and output, the additive penalties count the output only,
and a token that was never seen keeps its logit bit for bit. What a request has seen lives in its
`PenaltyState`, which follows the sequence token by token.
Source: Keskar et al., CTRL, section 4.1 (repetition); the OpenAI parameter page (additive).
Not here: the bias on single tokens, which comes before (`kernels.logit_bias`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import penalties as eager
from kernels.rows import require_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend

LARGEST: Final = float(np.finfo(np.float32).max)
"""Where a decayed penalty stops growing."""
LARGEST_SUM: Final = 1e300
"""Where its geometric sum does, so that a strength of 0 still gives 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Penalties:
    """How strongly a request's tokens are penalised; the defaults switch everything off.

    With c = count of a token among the last `window` generated ones and s = whether it stands
    there or in the prompt: `x = x / r if x > 0 else x * r` where s, then
    `x = x - f * (1 + d + ... + d^(c-1)) - p` where c > 0. The bracket is (1 - d^c) / (1 - d): c
    itself at d = 1, at most 1 / (1 - d) below, and nothing for c = 0.

    Attributes:
        repetition: r, once for a token however often it occurs.
        frequency: f; negative rewards.
        presence: p.
        decay: d: what each repeat weighs against the one before it.
        window: How many of the last generated tokens count; -1 all of them, 0 switches every
            penalty off. The prompt is always seen.
    """

    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    decay: float = 1.0
    window: int = -1

    def __post_init__(self) -> None:
        """Refuse what would turn a finite logit into NaN."""
        for name, low in (
            ("repetition", 1e-6),
            ("frequency", -1e6),
            ("presence", -1e6),
            ("decay", 0),
        ):
            value = getattr(self, name)
            if not low <= value <= 1e6:
                raise ValueError(f"{name}: got {value}, allowed {low:g} to 1e+06")
        if self.window < -1:
            raise ValueError(f"window: got {self.window}, allowed -1 (all), 0 (off) or more")


class PenaltyState(Protocol):
    """What one request has seen. Every backend has a class of its own; `apply_penalties` checks."""

    @property
    def n_generated(self) -> int:
        """Tokens accepted and not taken back."""

    @property
    def n_bytes(self) -> int:
        """Memory it holds."""

    def see(self, token_ids: list[int]) -> None:
        """Put prompt or forced tokens in; of the penalties only repetition minds them."""

    def accept(self, token_id: int) -> None:
        """Count a generated token, and forget the one that leaves the window."""

    def rollback(self, n_tokens: int) -> None:
        """Take the last accepted tokens back, as if they had never been drawn."""

    def count(self, token_id: int) -> int:
        """How often the token was generated within the window."""

    def is_seen(self, token_id: int) -> bool:
        """Whether the token stands in the prompt or within the window."""


def build_penalty_state(
    penalties: Penalties,
    prompt_ids: list[int],
    *,
    vocab_size: int,
    device: str = "cpu",
    backend: Backend | None = None,
) -> PenaltyState:
    """Begin a request's account of what it has seen, for logits that lie on `device`.

    Raises:
        ValueError: A token id lies outside of the vocabulary.
    """
    if choose_backend("penalty_state", device, backend) == "torch":
        return eager.DensePenaltyState(penalties, prompt_ids, vocab_size=vocab_size)
    return cpu.native.PenaltyState(
        prompt_ids,
        vocab_size=vocab_size,
        repetition=penalties.repetition,
        frequency=penalties.frequency,
        presence=penalties.presence,
        decay=penalties.decay,
        window=penalties.window,
    )


def apply_penalties(
    logits: Tensor, states: Sequence[PenaltyState | None], *, backend: Backend | None = None
) -> Tensor:
    """Penalise `logits` in place, each row by its own state, and return them.

    Every operation is rounded to float32 once, in the order of `Penalties`; the amount of a decayed
    frequency penalty is worked out in float64. A row whose state is None costs nothing.

    Shapes: logits (n_seqs, vocab_size) float32, rows of any stride; states (n_seqs,).

    Raises:
        ValueError: Shape, type or stride is another, or a state is of another backend.
    """
    require_rows(logits, states, "states")
    chosen = choose_backend("penalties", logits.device.type, backend)
    if chosen == "torch":
        return eager.apply_penalties(logits, states)
    native: Any = states if isinstance(states, list) else list(states)
    cpu.native.penalise(logits.numpy(), native)
    return logits


def reference_penalties(
    logits: NDArray[np.floating[Any]],
    *,
    prompt_ids: list[list[int]],
    output_ids: list[list[int]],
    penalties: list[Penalties],
) -> NDArray[np.floating[Any]]:
    """Penalise a copy, one token at a time, from the ids themselves.

    Works in the type of `logits`: float64 tells the true value, float32 the exact result of the
    contract, each operation rounded once.

    Shapes: logits (n_seqs, vocab_size); the lists hold one entry per sequence.
    """
    result = logits.copy()
    number = logits.dtype.type
    for row, (prompt, output, each) in enumerate(
        zip(prompt_ids, output_ids, penalties, strict=True)
    ):
        if each.window == 0:
            continue
        counted = output if each.window < 0 else output[-each.window :]
        for token in set(prompt) | set(counted):
            value, strength = result[row, token], number(each.repetition)
            value = value / strength if value > 0 else value * strength
            count = counted.count(token)
            if count > 0:
                value -= number(
                    _amount(float(number(each.frequency)), float(number(each.decay)), count)
                )
                value -= number(each.presence)
            result[row, token] = value
    return result


def _amount(frequency: float, decay: float, count: int) -> float:
    """Give f * (1 + d + ... + d^(c-1)), no further than the largest float32."""
    with np.errstate(over="ignore"):
        total = sum(np.float64(decay) ** place for place in range(count))
    return float(np.clip(np.float64(frequency) * min(total, LARGEST_SUM), -LARGEST, LARGEST))
