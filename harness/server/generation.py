r"""From a validated body to what the engine is asked: tokens, segments, sampling, limits.

The reasoning loop is laid out here. With depth d the engine writes d steps of exactly
`cot_step_tokens` tokens, then the answer; `\nStep k: ` is forced into the context before step
k > 1 and `\nAnswer: ` before the answer. Forced tokens are read like a prompt and not counted.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from harness.base.rng import seed_for
from harness.server.accel import mode_of, path_of, slots_needed
from harness.server.api_error import ApiError
from harness.server.job import Job
from harness.server.pool_costs import Left
from harness.server.sequence import SamplingParams, Segment
from harness.server.trace_context import SPAN_ID_LENGTH, trace_headers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from harness.server.frames import Frame
    from harness.server.phases import Stopwatch
    from harness.server.pools import Placement
    from harness.server.schemas import GenerationBody
    from harness.server.trace_context import TraceParent

DEFAULT_CHAT_TOKENS: Final = 256
DEFAULT_COMPLETION_TOKENS: Final = 16
MAX_TOKENS_PER_CHARACTER: Final = 4
"""UTF-8 takes up to four bytes, each of which may be a token: by then the first text is complete,
unless a stop string holds it back."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one sequence may occupy."""

    max_model_len: int
    kv_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One answer asked for: a prompt and how to go on from it.

    Attributes:
        prompt_index: Which of the request's prompts; `n` choices share each.
    """

    prompt_index: int
    tokens: list[int]
    segments: tuple[Segment, ...]
    params: SamplingParams

    @property
    def has_reasoning(self) -> bool:
        """Whether reasoning steps come before the answer."""
        return len(self.segments) > 1

    @property
    def left(self) -> Left:
        """What an engine has before it when this comes."""
        return Left(len(self.tokens), self.n_output_limit)

    @property
    def n_output_limit(self) -> int:
        """Tokens of all segments."""
        return sum(part.n_tokens for part in self.segments)


@dataclass(eq=False, kw_only=True)
class Generation:
    """A request ready for the engine.

    Attributes:
        operation: What OpenTelemetry calls it: chat or text_completion.
        trace: The caller's, if it named one.
    """

    request_id: str
    arrival_ns: int
    watch: Stopwatch
    features: tuple[str, ...]
    choices: tuple[Choice, ...]
    stops: tuple[str, ...]
    placement: Placement
    operation: str = "text_completion"
    trace: TraceParent | None = None

    @property
    def trace_id(self) -> str | None:
        """The caller's trace."""
        return None if self.trace is None else self.trace.trace_id

    @property
    def trace_headers(self) -> dict[str, str]:
        """Tell the caller its trace; the span's id is the beginning of the request's."""
        return trace_headers(self.trace, self.request_id[:SPAN_ID_LENGTH])

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompts, each counted once however many choices it has."""
        return sum({choice.prompt_index: len(choice.tokens) for choice in self.choices}.values())

    @property
    def n_output_limit(self) -> int:
        """Tokens of all choices."""
        return sum(choice.n_output_limit for choice in self.choices)

    @property
    def path(self) -> str:
        """Baseline or accelerated."""
        return path_of(self.features)

    @property
    def front_ns(self) -> dict[str, int]:
        """Phases from arrival until the hand-over to the engine."""
        return self.watch.laps_ns

    def submit(self, has_items: asyncio.Event) -> list[Job]:
        """Hand every choice to the engine at one stamp; their accounts begin where this ends."""
        sent_ns = self.watch.lap("stream")
        return [self._submit(choice, sent_ns, has_items) for choice in self.choices]

    def _submit(self, choice: Choice, sent_ns: int, has_items: asyncio.Event) -> Job:
        command: Frame = {
            "features": self.features,
            "tokens": choice.tokens,
            "segments": [(part.kind, part.n_tokens, part.forced) for part in choice.segments],
            "params": asdict(choice.params),
            "sent_ns": sent_ns,
            "n_accounts": choice.n_output_limit if self.stops else MAX_TOKENS_PER_CHARACTER,
        }
        job = Job(
            placement=self.placement,
            path=self.path,
            command=command,
            n_output=choice.n_output_limit,
            has_items=has_items,
        )
        self.placement.pool.link.take(job)
        return job


def build_choices(
    body: GenerationBody,
    prompts: list[list[int]],
    encode: Callable[[str], list[int]],
    *,
    default_tokens: int,
    max_model_len: int,
    seed: int,
) -> tuple[Choice, ...]:
    """Lay out `n` choices for each prompt, in the order of their indices.

    The first choice draws with `seed` itself, so that asking for more does not change it.
    """
    n = body.n_choices
    return tuple(
        Choice(
            prompt_index=place // n,
            tokens=tokens,
            segments=segments,
            params=build_params(body, derived_seed(seed, place)),
        )
        for prompt_index, tokens in enumerate(prompts)
        for segments in [build_segments(body, encode, default_tokens, max_model_len - len(tokens))]
        for place in range(prompt_index * n, (prompt_index + 1) * n)
    )


def derived_seed(seed: int, place: int) -> int:
    """Give the seed of a request's choice: its own for the first, an independent one for others."""
    return seed if place == 0 else seed_for(seed, "choice", place) >> 1


def request_seeds(root: int | None) -> Iterator[int]:
    """Seeds for requests that bring none: fresh ones, or those that follow from `root`."""
    for place in count():
        yield secrets.randbits(63) if root is None else seed_for(root, "request", place) >> 1


def build_segments(
    body: GenerationBody, encode: Callable[[str], list[int]], default_tokens: int, room: int
) -> tuple[Segment, ...]:
    """Lay out reasoning steps and answer.

    Without `max_tokens` the answer is `default_tokens` long, or what is left of `room`.
    """
    steps = [
        Segment(
            kind="reasoning",
            n_tokens=body.cot_step_tokens,
            forced=tuple(
                encode("\nAnswer: " if step == body.cot_depth else f"\nStep {step + 1}: ")
            ),
        )
        for step in range(1, body.cot_depth + 1)
    ]
    left = room - sum(step.n_tokens + len(step.forced) for step in steps)
    n_answer = body.output_limit or max(1, min(default_tokens, left))
    return (*steps, Segment(kind="content", n_tokens=n_answer))


def build_params(body: GenerationBody, seed: int) -> SamplingParams:
    """Take over the sampling fields."""
    return SamplingParams(
        temperature=body.temperature,
        top_k=max(0, body.top_k),
        top_p=body.top_p,
        min_p=body.min_p,
        repetition=body.repetition_penalty,
        frequency=body.frequency_penalty,
        presence=body.presence_penalty,
        decay=body.penalty_decay,
        window=body.penalty_window,
        seed=seed,
        ignore_eos=body.ignore_eos,
        n_logprobs=body.n_logprobs,
    )


def require_fit(
    n_prompt: int, segments: tuple[Segment, ...], features: tuple[str, ...], limits: Limits
) -> int:
    """Refuse what could never run; return the KV slots it needs.

    Raises:
        ApiError: The whole context is longer than the model's, or than the KV arena.
    """
    n_output = sum(part.n_tokens for part in segments)
    n_forced = sum(len(part.forced) for part in segments)
    n_total = n_prompt + n_forced + n_output
    what = f"prompt {n_prompt} + output {n_output} + separators {n_forced} = {n_total} tokens"
    if n_total > limits.max_model_len:
        raise ApiError(
            400,
            f"max_tokens: {what}, allowed max_model_len {limits.max_model_len}",
            param="max_tokens",
            code="context_length_exceeded",
        )
    needed = slots_needed(mode_of(features).layout, n_total)
    if needed > limits.kv_tokens:
        raise ApiError(
            400,
            f"max_tokens: {what} occupy {needed} KV slots, allowed kv_tokens {limits.kv_tokens}",
            param="max_tokens",
            code="context_length_exceeded",
        )
    return needed
