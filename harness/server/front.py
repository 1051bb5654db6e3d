"""What the HTTP routes share: tokenizer, pools, limits, journal and metrics of one server."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, TypeVar

from harness.base.clock import SystemClock
from harness.server.accel import read_features
from harness.server.answers import Answers
from harness.server.api_error import ApiError
from harness.server.body import shown
from harness.server.collector import FrontCollector
from harness.server.generation import Generation, Limits, build_choices, request_seeds, require_fit
from harness.server.journal import JournalRow
from harness.server.journal_queue import JournalQueue
from harness.server.metrics_endpoint import Served
from harness.server.room import Room
from harness.server.tokenizer import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.server.journal import Journal
    from harness.server.metrics_endpoint import ServerMetrics
    from harness.server.options import ServerOptions
    from harness.server.phases import GcPauses, Stopwatch
    from harness.server.pools import Pools
    from harness.server.schemas import ChatMessage, GenerationBody
    from harness.server.timings import Timings
    from harness.server.tokenizer import TextTokenizer
    from harness.server.trace_context import TraceParent

T = TypeVar("T")

_log = logging.getLogger(__name__)
_WAITING = ("queue", "kv_wait")
_LONG_TEXT = 16384
"""Characters from which tokenizing leaves the event loop to a thread."""


class Front:
    """One server's state on the HTTP side."""

    def __init__(
        self,
        *,
        options: ServerOptions,
        api_key: str | None,
        tokenizer: TextTokenizer,
        pools: Pools,
        max_model_len: int,
        journal: Journal,
        metrics: ServerMetrics,
        pauses: GcPauses,
        fingerprint: str,
    ) -> None:
        self.options = options
        self.api_key = api_key
        self.tokenizer = tokenizer
        self.pools = pools
        self.max_model_len = max_model_len
        self.journal = journal
        self.journal_queue = JournalQueue(journal)
        self.metrics = metrics
        self.fingerprint = fingerprint
        self._room = Room(n_slots=pools.n_slots, n_waiting=options.max_queued_requests)
        self._n_requests = self._n_streams = 0
        self._seeds = request_seeds(options.seed)
        self.pauses = pauses
        self.collector = FrontCollector()
        self.clock = SystemClock()
        self.started_unix_s = self.clock.realtime_ns() // 10**9

    def require_model(self, name: str | None) -> None:
        """Refuse a model this server does not have."""
        if name is not None and name != self.options.model_name:
            raise ApiError(
                404,
                f"model: got {shown(name)}, allowed {shown(self.options.model_name)}",
                param="model",
                code="model_not_found",
            )

    def require_length(self, texts: list[str], name: str) -> None:
        """Refuse a text that no tokenization can make fit, before time is spent on it."""
        longest = self.max_model_len * self.tokenizer.max_token_bytes
        for text in texts:
            if len(text) > longest:
                raise ApiError(
                    400,
                    f"{name}: got {len(text)} characters, allowed at most {longest} (the longest "
                    f"token is {self.tokenizer.max_token_bytes} bytes, max_model_len "
                    f"{self.max_model_len})",
                    param=name,
                    code="context_length_exceeded",
                )

    async def encode(self, texts: list[str], *, has_bos: bool = True) -> list[list[int]]:
        """Tokenize prompts; long ones in a thread, so that streams go on."""
        start = [self.tokenizer.bos_id] if has_bos else []
        return await _aside(
            sum(map(len, texts)),
            lambda: [start + self.tokenizer.encode(text) for text in texts],
        )

    async def encode_chat(self, messages: list[ChatMessage]) -> list[int]:
        """Tokenize a conversation by the model's template, a long one in a thread."""
        turns = [Message(message.role, message.text) for message in messages]
        length = sum(len(turn.text) for turn in turns)
        return await _aside(length, lambda: self.tokenizer.chat(turns))

    def require_room(self, n_sequences: int) -> None:
        """Refuse a request when the queue is full or the engine is gone.

        Raises:
            ApiError: 429 with Retry-After, or 503.
        """
        if not self.pools.is_alive:
            raise ApiError(503, "the engine process died; restart the server", code="engine_died")
        self._room.require(n_sequences, self.pools.n_jobs)

    def takes_next_stream_away(self) -> bool:
        """Whether the stream that begins now is one that a planted fault cuts."""
        self._n_streams += 1
        every = self.options.faults.drop_every
        return every is not None and self._n_streams % every == 0

    def fail_by_plan(self) -> None:
        """Fail if it is this request's turn by a planted fault.

        Raises:
            ApiError: 500.
        """
        self._n_requests += 1
        every = self.options.faults.error_every
        if every is not None and self._n_requests % every == 0:
            raise ApiError(500, f"a planted fault (--faults error:1/{every})", code="planted")

    def begin(
        self,
        body: GenerationBody,
        prompts: list[list[int]],
        *,
        accel: str | None,
        watch: Stopwatch,
        arrival_ns: int,
        default_tokens: int,
        trace: TraceParent | None,
    ) -> tuple[Generation, Answers]:
        """Check a request against the limits and hand it to the engine.

        Raises:
            ApiError: It does not fit, asks for an unknown feature, or there is no room.
        """
        features = read_features(accel, self.pools.named)
        choices = build_choices(
            body,
            prompts,
            self.tokenizer.encode,
            default_tokens=default_tokens,
            max_model_len=self.max_model_len,
            seed=next(self._seeds) if body.seed is None else body.seed,
        )
        limits = Limits(
            max_model_len=self.max_model_len, kv_tokens=self.pools.most_kv_tokens(features)
        )
        n_slots = max(
            require_fit(len(choice.tokens), choice.segments, features, limits)
            for choice in choices[:: body.n_choices]
        )
        self.require_room(len(choices))
        generation = Generation(
            request_id=secrets.token_hex(12),
            arrival_ns=arrival_ns,
            watch=watch,
            features=features,
            choices=choices,
            stops=body.stop_texts,
            placement=self.pools.place(
                features, [choice.left for choice in choices], n_slots=n_slots
            ),
            operation=body.operation,
            trace=trace,
        )
        self.collector.enter(generation, is_tuned="gc_tuned" in features)
        return generation, Answers(generation, self.tokenizer, self.pauses)

    async def complete(self, generation: Generation, answers: Answers) -> Timings:
        """Write the journal, close the account, count the request."""
        outcome = answers.last.reason
        await self._store(generation, answers, outcome)
        answers.lap("store")
        timings = answers.timings()
        self.collector.leave(generation)
        self._room.note_service(timings.wall_s - sum(map(timings.phases.__getitem__, _WAITING)))
        self.metrics.record_finished(
            served(generation, outcome), timings, self.clock.realtime_ns() / 1e9
        )
        return timings

    async def break_off(self, generation: Generation, answers: Answers, outcome: str) -> None:
        """End a request whose client is gone, or that failed."""
        answers.abandon()
        self.collector.leave(generation)
        self.metrics.record_broken(served(generation, outcome), answers.timings().wall_s)
        await self._store(generation, answers, outcome)

    async def _store(self, generation: Generation, answers: Answers, outcome: str) -> None:
        """Write the request's row, on the way its features ask for."""
        timings = answers.timings()
        row = JournalRow(
            id=generation.request_id,
            finished_unix_ns=self.clock.realtime_ns(),
            path=generation.path,
            features=generation.features,
            n_prompt_tokens=generation.n_prompt,
            n_output_tokens=answers.n_output,
            n_reasoning_tokens=answers.n_reasoning,
            outcome=outcome,
            wall_s=timings.wall_s,
            ttft_s=timings.ttft_s,
            phases=timings.phases,
            trace_id=generation.trace_id,
        )
        _log.debug("%s of trace %s: %s in %.6f s", row.id, row.trace_id, outcome, row.wall_s)
        if "async_store" in generation.features:
            await self.journal_queue.store(row)
            return
        await self.journal.connections.take()
        try:
            self.journal.write([row])
        finally:
            self.journal.connections.give_back()


async def _aside(length: int, tokenize: Callable[[], T]) -> T:
    """Run at once what is short; what is long leaves the event loop."""
    return await asyncio.to_thread(tokenize) if length > _LONG_TEXT else tokenize()


def served(generation: Generation, outcome: str) -> Served:
    """Tell what is counted of a request."""
    return Served(
        path=generation.path,
        operation=generation.operation,
        outcome=outcome,
        n_prompt=generation.n_prompt,
        trace_id=generation.trace_id,
    )


def answer_headers(generation: Generation) -> dict[str, str]:
    """Tell which path ran, and which trace it belongs to."""
    return {
        "X-MC-Path": generation.path,
        "X-MC-Features": ",".join(generation.features),
        "X-MC-Pool": generation.placement.pool.name,
        **generation.trace_headers,
    }
