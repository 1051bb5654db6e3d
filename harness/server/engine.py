"""The engine: step after step, all running sequences advance together.

`Engine.step` is the loop's body: schedule, run, postprocess, charge. Everything that leaves it is
an event for the front: a token, or the end of a sequence with the account of its time. The engine
knows token ids only; text, HTTP and the journal are the front's.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from harness.server.kv_arena import KvArena
from harness.server.model_runner import ModelRunner
from harness.server.sampler import Chooser, Chosen, Sampler, TokenLogprobs, has_prescribed_length
from harness.server.scheduler import Schedule, Scheduler
from harness.server.sequence import FinishReason, Segment, Sequence, StepRecord

if TYPE_CHECKING:
    from harness.server.model import Llama
    from harness.server.options import ServerOptions
    from harness.server.phases import Stopwatch


class TokenEvent(NamedTuple):
    """A generated token.

    Attributes:
        account: Phases up to this token; only on a sequence's first tokens.
        logprobs: Of this token and the likeliest ones, where the request asked.
    """

    id: int
    token_id: int
    kind: str
    account: dict[str, int] | None
    logprobs: TokenLogprobs | None


class EndEvent(NamedTuple):
    """A sequence left the engine."""

    id: int
    reason: FinishReason
    n_evictions: int
    kv_tokens: int
    steps: list[dict[str, Any]]
    account: dict[str, int]
    n_cached: int


class StepEvents(NamedTuple):
    """What one step has to tell.

    Attributes:
        until_ns: The stamp up to which all accounts run.
        n_batch: Sequences that took part.
    """

    tokens: list[TokenEvent]
    ends: list[EndEvent]
    until_ns: int
    n_batch: int


class Engine:
    """Model, arena, scheduler and sampler put together; one thread, no I/O.

    Attributes:
        sampler: Chooses tokens; whoever compares paths puts a listener in its place.
    """

    def __init__(
        self,
        model: Llama,
        options: ServerOptions,
        *,
        max_model_len: int,
        control_ids: list[int],
        stop_ids: list[int],
    ) -> None:
        arena = KvArena(model.config, options.kv_tokens, like=model.head_weight())
        self.scheduler = Scheduler(
            arena,
            max_num_seqs=options.max_num_seqs,
            max_num_batched_tokens=options.max_num_batched_tokens,
            alloc_every=options.faults.alloc_every,
        )
        self._runner = ModelRunner(model, arena, max_model_len)
        self.sampler: Chooser = Sampler(
            model.config.vocab_size, control_ids=control_ids, stop_ids=stop_ids
        )
        self._stop_ids = frozenset(stop_ids)
        self._sequences: dict[int, Sequence] = {}
        self._cancelled: list[Sequence] = []
        self.n_tokens_generated = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work or bool(self._cancelled)

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence into the line."""
        self._sequences[sequence.id] = sequence
        self.scheduler.add(sequence)

    def cancel(self, sequence_id: int) -> None:
        """Take a sequence out and free its memory now; unknown or finished ids are ignored."""
        sequence = self._sequences.pop(sequence_id, None)
        if sequence is not None:
            self.scheduler.remove(sequence)
            self._cancelled.append(sequence)

    def step(self, watch: Stopwatch, *, was_idle: bool = False) -> StepEvents:
        """Advance every scheduled sequence once.

        Args:
            watch: Runs since the end of the last step, or since the engine woke up.
            was_idle: Whether the engine slept before this step: then a new sequence's time in the
                socket was a hand-over, otherwise it waited for the running step.
        """
        step_began_ns = watch.last_ns - sum(watch.laps_ns.values())
        began_ns = watch.lap("stream")
        schedule = self.scheduler.schedule()
        chunks = schedule.chunks
        watch.lap("kv")
        chosen: dict[Sequence, Chosen] = {}
        if chunks:
            drawing = [chunk.sequence for chunk in chunks if chunk.completes_context]
            with torch.inference_mode():
                logits = self._runner.run(chunks, watch)
                chosen = dict(
                    zip(drawing, self.sampler.choose(logits, drawing, watch), strict=True)
                )
            self.scheduler.advance(chunks, (watch.last_ns - began_ns) / 1e9)
            watch.lap("kv")
        tokens, finished = self._postprocess(schedule, chosen, watch.last_ns)
        until_ns = watch.lap("stream")
        self._charge(schedule, watch, step_began_ns, was_idle=was_idle)
        ends = [_end_event(sequence, reason) for sequence, reason in finished]
        ends += [_end_event(sequence, "cancelled") for sequence in self._cancelled]
        self._cancelled.clear()
        return StepEvents(
            [_token_event(*token) for token in tokens],
            ends,
            until_ns,
            len(chunks),
        )

    def _postprocess(
        self, schedule: Schedule, chosen: dict[Sequence, Chosen], now_ns: int
    ) -> tuple[list[tuple[Sequence, Chosen, str]], list[tuple[Sequence, FinishReason]]]:
        """Append the new tokens, and end what is complete."""
        tokens: list[tuple[Sequence, Chosen, str]] = []
        finished: list[tuple[Sequence, FinishReason]] = []
        for sequence, _ in schedule.chunks:
            sequence.step_began_ns = sequence.step_began_ns or now_ns
        for sequence, token in chosen.items():
            if token.is_faulty:
                finished.append((sequence, "error"))
                continue
            tokens.append((sequence, token, sequence.segment.kind))
            reason = self._accept(sequence, token.token_id, now_ns)
            if reason is not None:
                finished.append((sequence, reason))
        for sequence, _ in finished:
            self.scheduler.remove(sequence)
            del self._sequences[sequence.id]
        self.n_tokens_generated += len(tokens)
        return tokens, finished

    def _accept(self, sequence: Sequence, token_id: int, now_ns: int) -> FinishReason | None:
        """Append a token and move to the next segment when this one is complete."""
        is_stop = token_id in self._stop_ids and not has_prescribed_length(sequence)
        sequence.append_generated(token_id)
        if is_stop:
            return "stop"
        segment = sequence.segment
        if sequence.n_in_segment < segment.n_tokens:
            return None
        if sequence.segment_index == len(sequence.segments) - 1:
            return "length"
        _record_step(sequence, segment, now_ns)
        sequence.append_forced(segment.forced)
        sequence.segment_index += 1
        sequence.n_in_segment = 0
        return None

    def _charge(
        self, schedule: Schedule, watch: Stopwatch, step_began_ns: int, *, was_idle: bool
    ) -> None:
        """Charge the step to everybody who was here: as work, as stall, or as waiting."""
        before = "stream" if was_idle else "queue"
        for sequence, _ in schedule.chunks:
            _charge_before(sequence, step_began_ns, before)
            # Who came in during this step's first lap was not here for all of that lap.
            late_ns = sequence.charged_until_ns - step_began_ns
            sequence.charge_all(watch.laps_ns)
            if late_ns > 0:
                sequence.charge("stream", -late_ns)
            sequence.charged_until_ns = watch.last_ns
        idle_groups = (
            ("stall", schedule.stalled),
            ("kv_wait", schedule.kv_waiting),
            ("queue", schedule.queued),
            ("stream", self._cancelled),
        )
        for phase, sequences in idle_groups:
            for sequence in sequences:
                _charge_before(sequence, step_began_ns, before)
                sequence.charge(phase, watch.last_ns - sequence.charged_until_ns)
                sequence.charged_until_ns = watch.last_ns


def _charge_before(sequence: Sequence, step_began_ns: int, phase: str) -> None:
    """Charge the time a new sequence spent in the socket before this step began."""
    early_ns = step_began_ns - sequence.charged_until_ns
    if early_ns > 0:
        sequence.charge(phase, early_ns)
        sequence.charged_until_ns = step_began_ns


def _record_step(sequence: Sequence, segment: Segment, now_ns: int) -> None:
    """Note how long a reasoning step took, from the first step it ran in or the last one's end."""
    seconds = (now_ns - sequence.step_began_ns) / 1e9
    sequence.steps.append(
        StepRecord(tokens=segment.n_tokens, kv_tokens=len(sequence.tokens), seconds=seconds)
    )
    sequence.step_began_ns = now_ns


def _token_event(sequence: Sequence, token: Chosen, kind: str) -> TokenEvent:
    account = dict(sequence.phases_ns) if sequence.n_generated <= sequence.n_accounts else None
    return TokenEvent(sequence.id, token.token_id, kind, account, token.logprobs)


def _end_event(sequence: Sequence, reason: FinishReason) -> EndEvent:
    return EndEvent(
        sequence.id,
        reason,
        sequence.n_evictions,
        len(sequence.tokens),
        [asdict(step) for step in sequence.steps],
        sequence.phases_ns,
        sequence.n_cached,
    )
