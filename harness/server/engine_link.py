"""The front's end of the socket pair: submits requests, and hands events to whom they belong.

Runs in the front's event loop and always reads, so a client that reads slowly fills its own
request's list (at most one entry per token it asked for) and never the engine's socket.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from harness.server.frames import Frame, FrameReader, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.server.sequence import SamplingParams, Segment


_GAUGES: Final = ("running", "waiting", "kv_held", "kv_kept")
_COUNTERS: Final = ("evictions", "prefix_hits")


class TokenItem(NamedTuple):
    """A token; its account of phases comes with a sequence's first few.

    Attributes:
        logprobs: Log-probability of this token, and (token id, log-probability) of the likeliest
            ones, falling; None where the request did not ask.
    """

    until_ns: int
    token_id: int
    kind: str
    account: dict[str, int] | None
    logprobs: tuple[float, list[tuple[int, float]]] | None = None


class EndItem(NamedTuple):
    """The end of a sequence; `reason` may be `engine_died`.

    Attributes:
        n_cached: Prompt tokens whose keys and values came from the prefix cache.
    """

    until_ns: int
    reason: str
    n_evictions: int
    kv_tokens: int
    steps: list[dict[str, Any]]
    account: dict[str, int]
    n_cached: int = 0


@dataclass(eq=False, kw_only=True)
class Job:
    """A sequence that is with the engine; `has_items` wakes whoever waits for it."""

    id: int
    has_items: asyncio.Event
    items: deque[TokenItem | EndItem] = field(default_factory=deque)

    def push(self, item: TokenItem | EndItem) -> None:
        """Add an event and wake the request."""
        self.items.append(item)
        self.has_items.set()

    def take(self) -> list[TokenItem | EndItem]:
        """Take all events there are."""
        taken = list(self.items)
        self.items.clear()
        return taken


class EngineLink(asyncio.Protocol):
    """Frames to and from the engine process."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self._jobs: dict[int, Job] = {}
        self._next_id = 0
        self.is_alive = False
        self.ready: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self.gauges: dict[str, int] = dict.fromkeys(_GAUGES + _COUNTERS, 0)

    @property
    def n_jobs(self) -> int:
        """Requests with the engine, running or waiting."""
        return len(self._jobs)

    def start(self, first: Frame) -> None:
        """Send the options; `ready` completes when the model is loaded, or could not be."""
        self._write(first)

    def submit(
        self,
        *,
        features: tuple[str, ...],
        tokens: list[int],
        segments: tuple[Segment, ...],
        params: SamplingParams,
        sent_ns: int,
        n_accounts: int,
        has_items: asyncio.Event,
    ) -> Job:
        """Hand a sequence to the engine."""
        self._next_id += 1
        job = Job(id=self._next_id, has_items=has_items)
        self._jobs[job.id] = job
        self._write(
            {
                "do": "add",
                "id": job.id,
                "features": features,
                "tokens": tokens,
                "segments": [(part.kind, part.n_tokens, part.forced) for part in segments],
                "params": asdict(params),
                "sent_ns": sent_ns,
                "n_accounts": n_accounts,
            }
        )
        return job

    def stop(self, job: Job) -> None:
        """Ask the engine to end a request; its end event still comes."""
        if job.id in self._jobs:
            self._write({"do": "cancel", "id": job.id})

    def abandon(self, job: Job) -> None:
        """End a request nobody waits for any more."""
        if self._jobs.pop(job.id, None) is not None:
            self._write({"do": "cancel", "id": job.id})

    def close(self) -> None:
        """Close the socket, which ends the engine."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, frame: Frame) -> None:
        if self._transport is not None:
            self._transport.write(encode_frame(frame))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self.is_alive = True

    def data_received(self, data: bytes) -> None:
        """Take the engine's events."""
        for frame in self._reader.feed(data):
            if "until_ns" in frame:
                self._dispatch(frame)
            elif not self.ready.done():
                self.ready.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """End every request: the engine is gone."""
        del exc
        self.is_alive = False
        self._transport = None
        if not self.ready.done():
            self.ready.set_result({"failed": "the engine process ended while it started"})
        self.gauges |= dict.fromkeys(_GAUGES, 0)
        for job in self._jobs.values():
            job.push(EndItem(0, "engine_died", 0, 0, [], {}))
        self._jobs.clear()
        self._on_death()

    def _dispatch(self, frame: Frame) -> None:
        self.gauges = frame["gauges"]
        until_ns = frame["until_ns"]
        for job_id, token_id, kind, account, logprobs in frame["tokens"]:
            job = self._jobs.get(job_id)
            if job is not None:
                job.push(TokenItem(until_ns, token_id, kind, account, _read_logprobs(logprobs)))
        for job_id, reason, *rest in frame["ends"]:
            job = self._jobs.pop(job_id, None)
            if job is not None:
                job.push(EndItem(until_ns, reason, *rest))


def _read_logprobs(raw: list[Any] | None) -> tuple[float, list[tuple[int, float]]] | None:
    """Give the tuples back that JSON made lists."""
    if raw is None:
        return None
    chosen, likeliest = raw
    return chosen, [(token_id, logprob) for token_id, logprob in likeliest]
