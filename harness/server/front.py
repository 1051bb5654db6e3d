"""What the HTTP routes share: tokenizer, engine link, limits, journal and metrics of one server."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, TypeVar

from harness.base.clock import SystemClock
from harness.server.accel import read_features
from harness.server.answer import Answer
from harness.server.api_error import ApiError
from harness.server.generation import Generation, Limits, build_params, build_segments, require_fit
from harness.server.journal import JournalRow
from harness.server.tokenizer import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.server.engine_link import EngineLink
    from harness.server.journal import Journal
    from harness.server.metrics_endpoint import ServerMetrics
    from harness.server.options import ServerOptions
    from harness.server.phases import GcPauses, Stopwatch
    from harness.server.schemas import ChatMessage, GenerationBody
    from harness.server.timings import Timings
    from harness.server.tokenizer import TextTokenizer

T = TypeVar("T")

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
        link: EngineLink,
        max_model_len: int,
        journal: Journal,
        metrics: ServerMetrics,
        pauses: GcPauses,
    ) -> None:
        self.options = options
        self.api_key = api_key
        self.tokenizer = tokenizer
        self.link = link
        self.limits = Limits(max_model_len=max_model_len, kv_tokens=options.kv_tokens)
        self.journal = journal
        self.metrics = metrics
        self.pauses = pauses
        self.clock = SystemClock()
        self.started_unix_s = self.clock.realtime_ns() // 10**9

    def require_model(self, name: str | None) -> None:
        """Refuse a model this server does not have."""
        if name is not None and name != self.options.model_name:
            raise ApiError(
                404,
                f"model: got {name[:60]!r}, allowed {self.options.model_name!r}",
                param="model",
                code="model_not_found",
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

    def require_room(self) -> None:
        """Refuse a request when the queue is full or the engine is gone.

        Raises:
            ApiError: 429 with Retry-After, or 503.
        """
        if not self.link.is_alive:
            raise ApiError(503, "the engine process died; restart the server", code="engine_died")
        n_allowed = self.options.max_num_seqs + self.options.max_queue
        if self.link.n_jobs >= n_allowed:
            raise ApiError(
                429,
                f"the queue is full: {self.link.n_jobs} requests in the server, {n_allowed} "
                "allowed (--max-num-seqs + --max-queue); retry later",
                code="queue_full",
            )

    def begin(
        self,
        body: GenerationBody,
        tokens: list[int],
        *,
        accel: str | None,
        watch: Stopwatch,
        arrival_ns: int,
        default_tokens: int,
    ) -> tuple[Generation, Answer]:
        """Check a request against the limits and hand it to the engine.

        Raises:
            ApiError: It does not fit, asks for an unknown feature, or there is no room.
        """
        features = read_features(accel)
        segments = build_segments(
            body, self.tokenizer.encode, default_tokens, self.limits.max_model_len - len(tokens)
        )
        require_fit(len(tokens), segments, features, self.limits)
        self.require_room()
        generation = Generation(
            request_id=secrets.token_hex(12),
            arrival_ns=arrival_ns,
            watch=watch,
            features=features,
            tokens=tokens,
            segments=segments,
            params=build_params(body),
            stops=body.stop_texts,
        )
        return generation, Answer(generation, self.link, self.tokenizer, self.pauses)

    def complete(self, generation: Generation, answer: Answer) -> Timings:
        """Write the journal, close the account, count the request."""
        self._write_journal(generation, answer, answer.finish_reason)
        answer.lap("store")
        timings = answer.timings()
        self.metrics.record_finished(
            generation.path, answer.finish_reason, generation.n_prompt, timings
        )
        return timings

    def break_off(self, generation: Generation, answer: Answer, outcome: str) -> None:
        """End a request whose client is gone, or that failed."""
        answer.abandon()
        self._write_journal(generation, answer, outcome)
        self.metrics.record_broken(generation.path, outcome)

    def _write_journal(self, generation: Generation, answer: Answer, outcome: str) -> None:
        timings = answer.timings()
        self.journal.write(
            JournalRow(
                id=generation.request_id,
                finished_unix_ns=self.clock.realtime_ns(),
                path=generation.path,
                features=generation.features,
                n_prompt_tokens=generation.n_prompt,
                n_output_tokens=answer.n_output,
                n_reasoning_tokens=answer.n_reasoning,
                outcome=outcome,
                wall_s=timings.wall_s,
                ttft_s=timings.ttft_s,
                phases=timings.phases,
            )
        )


async def _aside(length: int, tokenize: Callable[[], T]) -> T:
    """Run at once what is short; what is long leaves the event loop."""
    return await asyncio.to_thread(tokenize) if length > _LONG_TEXT else tokenize()


def answer_headers(generation: Generation) -> dict[str, str]:
    """Tell which path ran."""
    return {
        "X-MC-Path": generation.path,
        "X-MC-Features": ",".join(generation.features),
        "X-MC-Pool": "cpu",
    }
