"""The front's end of a socket pair: hands jobs to one engine, and its events to the jobs.

Runs in the front's event loop and always reads, so a client that reads slowly fills its own
request's list (at most one entry per token it asked for) and never the engine's socket.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from harness.server.adaptive_batching import FIRST_COSTS
from harness.server.frames import Frame, FrameReader, encode_frame
from harness.server.job import EndItem, TokenItem
from harness.server.pool_costs import PoolCosts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from harness.server.engine_series import EngineSeries
    from harness.server.job import Job


_STATE: Final = (
    *("running", "waiting", "kv_held", "kv_kept"),
    *("evictions", "prefix_queries", "prefix_hits"),
)
"""What an engine tells of itself with every step."""


class EngineLink(asyncio.Protocol):
    """Frames to and from one engine process.

    Args:
        pool: Name of the pool whose engine it is.
        series: What steps are counted in.
        on_death: Called once when the process is gone, with the jobs it has not ended.
    """

    def __init__(
        self, pool: str, series: EngineSeries, on_death: Callable[[list[Job]], None]
    ) -> None:
        self._pool = pool
        self._series = series
        self._on_death = on_death
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self._jobs: dict[int, Job] = {}
        self._next_id = 0
        self.is_alive = False
        self.ready: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self.state: dict[str, int] = dict.fromkeys(_STATE, 0)
        self.costs = PoolCosts(FIRST_COSTS)

    @property
    def jobs(self) -> Collection[Job]:
        """Sequences with the engine, running or waiting, in the order they came."""
        return self._jobs.values()

    def start(self, first: Frame) -> None:
        """Send the options; `ready` completes when the model is loaded, or could not be."""
        self._write(first)

    def take(self, job: Job) -> None:
        """Hand a sequence to the engine."""
        self._next_id += 1
        job.id, job.begun = self._next_id, self.costs.done
        self._jobs[job.id] = job
        self._write({"do": "add", "id": job.id, **job.command})

    def cancel(self, job: Job) -> None:
        """Ask the engine to end a sequence; its end event still comes."""
        if job.id in self._jobs:
            self._write({"do": "cancel", "id": job.id})

    def abandon(self, job: Job) -> None:
        """End a sequence nobody waits for any more."""
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
        jobs = list(self._jobs.values())
        self._jobs.clear()
        self._on_death(jobs)

    def _dispatch(self, frame: Frame) -> None:
        self.state = frame["state"]
        until_ns = frame["until_ns"]
        n_prefill = 0
        gaps: dict[tuple[str, int], int] = {}
        for job_id, token_id, kind, account, logprobs in frame["tokens"]:
            job = self._jobs.get(job_id)
            if job is not None:
                n_prefill += job.n_prompt_left
                if job.is_new(token_id):
                    since = job.path, job.last_ns
                    gaps[since] = gaps.get(since, 0) + 1
                    job.last_ns = until_ns
                    job.push(TokenItem(until_ns, token_id, kind, account, _read_logprobs(logprobs)))
                elif job.has_diverged:
                    self._fail(job)
        self.costs.note_step(n_prefill, len(frame["tokens"]))
        self._series.note_step(self._pool, frame)
        self._series.note_gaps(gaps, until_ns)
        for job_id, reason, *rest in frame["ends"]:
            job = self._jobs.pop(job_id, None)
            if job is not None:
                self._end(job, EndItem(until_ns, reason, *rest))

    def _end(self, job: Job, end: EndItem) -> None:
        """Hand an end on; what ran undisturbed tells what steps cost."""
        if job.ends_too_early(end.reason):
            job.push(end._replace(reason="replay_differs"))
            return
        if end.reason in {"length", "stop"} and not job.is_restarted:
            self.costs.learn(job.begun, (end.until_ns - job.command["sent_ns"]) / 1e9)
        job.push(end)

    def _fail(self, job: Job) -> None:
        """End a job whose second run disagrees with what its client has."""
        self.abandon(job)
        job.push(EndItem(0, "replay_differs", 0, 0, [], {}))


def _read_logprobs(raw: list[Any] | None) -> tuple[float, list[tuple[int, float]]] | None:
    """Give the tuples back that JSON made lists."""
    if raw is None:
        return None
    chosen, likeliest = raw
    return chosen, [(token_id, logprob) for token_id, logprob in likeliest]
