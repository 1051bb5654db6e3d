"""One sequence: its tokens, its place in the answer, and the account of its time.

A sequence owns how long it is and how much of it has keys and values (`n_computed`). The difference
is what is left to run: one token when it decodes, many when its prompt, a forced separator, or the
recomputation after an eviction is still to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernels.penalties import PenaltyState

Layout = Literal["contiguous", "paged", "packed"]
LAYOUTS: Final[tuple[Layout, ...]] = ("contiguous", "paged", "packed")
Kind = Literal["reasoning", "content"]
FinishReason = Literal["length", "stop", "cancelled", "error"]


class Mode(NamedTuple):
    """How the engine runs a sequence; all resident sequences are of one mode.

    Attributes:
        layout: How KV lies in the arena; `packed` is paged, in records of few bits.
        has_prefix_cache: Whether full blocks are kept, and looked for at admission; never where
            the layout is contiguous.
        is_adaptive: Whether measured step costs bound the prefill beside decoding sequences.
        is_gc_tuned: Whether the search for cyclic garbage waits for an idle moment.
        is_fused: Whether native kernels choose the tokens, with penalties on seen tokens only.
        is_depth_clipped: Whether what is many nats below the likeliest token is never drawn.
    """

    layout: Layout = "contiguous"
    has_prefix_cache: bool = False
    is_adaptive: bool = False
    is_gc_tuned: bool = False
    is_fused: bool = False
    is_depth_clipped: bool = False


BASELINE: Final = Mode()


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """How a sequence's tokens are chosen; the defaults switch everything off.

    Attributes:
        repetition, frequency, presence, decay, window: As in `kernels.penalties.Penalties`.
        n_logprobs: None: no log-probabilities; k: those of the chosen and of the k likeliest
            tokens, from the model's own distribution before bias, penalties and temperature.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    decay: float = 1.0
    window: int = -1
    seed: int = 0
    ignore_eos: bool = False
    n_logprobs: int | None = None

    @property
    def has_penalties(self) -> bool:
        """Whether any penalty can change a logit."""
        is_on = self.repetition != 1.0 or self.frequency != 0.0 or self.presence != 0.0
        return is_on and self.window != 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A stretch of generated tokens: one reasoning step, or the answer.

    Attributes:
        forced: Token ids appended to the context when the segment is complete.
    """

    kind: Kind
    n_tokens: int
    forced: tuple[int, ...] = ()


@dataclass(kw_only=True, slots=True)
class StepRecord:
    """What one reasoning step took."""

    tokens: int
    kv_tokens: int
    seconds: float


@dataclass(eq=False, kw_only=True, slots=True)
class Sequence:
    """A request inside the engine.

    Attributes:
        order: Arrival number: smaller is older; fairness and eviction go by it.
        tokens: Prompt, forced and generated ids, in context order.
        mode: How the engine runs it.
        segments: What is to be generated, the answer last.
        holding: What the arena's book-keeping gave it: one range, or blocks in order.
        n_entered: How many of its blocks the prefix index has been told of; `chain` is the serial
            number of the last.
        n_cached: Prompt tokens whose keys and values came from the prefix cache.
        slots: Arena slot of each context position, valid up to `n_slots`.
        n_accounts: How many of its first tokens carry the account of phases up to them.
        penalty_state: What its penalties have seen; begun with its first draw, where it has any.
        charged_until_ns: Up to where this sequence's time is accounted for.
        phases_ns: Nanoseconds by phase so far.
    """

    id: int
    order: int
    mode: Mode
    tokens: list[int]
    segments: tuple[Segment, ...]
    params: SamplingParams
    charged_until_ns: int
    n_accounts: int = 4
    n_prompt: int = 0
    n_computed: int = 0
    n_cached: int = 0
    n_generated: int = 0
    segment_index: int = 0
    n_in_segment: int = 0
    n_evictions: int = 0
    steps: list[StepRecord] = field(default_factory=list)
    step_began_ns: int = 0
    phases_ns: dict[str, int] = field(default_factory=dict)
    slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    n_slots: int = 0
    holding: list[int] = field(default_factory=list)
    n_entered: int = 0
    chain: int = 0
    penalty_state: PenaltyState | None = None

    def __post_init__(self) -> None:
        """Remember where the prompt ends."""
        self.n_prompt = len(self.tokens)

    @property
    def n_pending(self) -> int:
        """Tokens whose keys and values are still to be computed."""
        return len(self.tokens) - self.n_computed

    @property
    def segment(self) -> Segment:
        """The segment being generated."""
        return self.segments[self.segment_index]

    def charge(self, phase: str, duration_ns: int) -> None:
        """Add time to a phase."""
        self.phases_ns[phase] = self.phases_ns.get(phase, 0) + duration_ns

    def charge_all(self, laps_ns: dict[str, int]) -> None:
        """Add the laps of a step."""
        phases_ns = self.phases_ns
        for phase, duration_ns in laps_ns.items():
            phases_ns[phase] = phases_ns.get(phase, 0) + duration_ns

    def append_generated(self, token_id: int) -> None:
        """Take a generated token; forced ones follow through `append_forced`."""
        self.tokens.append(token_id)
        self.n_generated += 1
        self.n_in_segment += 1
        if self.penalty_state is not None:
            self.penalty_state.accept(token_id)

    def append_forced(self, token_ids: tuple[int, ...]) -> None:
        """Put a separator into the context; penalties see it as prompt."""
        self.tokens.extend(token_ids)
        if self.penalty_state is not None:
            self.penalty_state.see(list(token_ids))
