"""`/metrics`: the server's series, built from the catalogue, in the format that was asked for.

Text format 0.0.4 has vLLM's names beside our own; OpenMetrics has exemplars instead, whose trace
ids come from the requests' `traceparent`. How lines are written is the business of `series`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.metrics.catalogue import server as catalogue
from harness.server.engine_series import FRONT, EngineSeries
from harness.server.genai_metrics import GenAiMetrics
from harness.server.machine import Energy, private_bytes
from harness.server.series import Exemplar, Family, Histograms, Values, render
from harness.server.vllm_names import VllmNames

if TYPE_CHECKING:
    from harness.server.journal_queue import JournalQueue
    from harness.server.options import ServerOptions
    from harness.server.phases import GcPauses
    from harness.server.pools import Pools
    from harness.server.timings import Timings

_COUNTERS: Final = {
    "evictions": catalogue.EVICTIONS,
    "prefix_queries": catalogue.PREFIX_QUERIES,
    "prefix_hits": catalogue.PREFIX_HITS,
}
_GAUGES: Final = {
    "running": catalogue.RUNNING,
    "waiting": catalogue.WAITING,
    "kv_held": catalogue.KV_HELD,
    "kv_kept": catalogue.KV_KEPT,
    "kv_capacity": catalogue.KV_CAPACITY,
}
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_SERVER_ERROR: Final = 500


def wants_open(accept: str) -> bool:
    """Whether a client takes OpenMetrics; who does gets it, as Prometheus' own clients do."""
    return OPEN_METRICS.partition(";")[0] in accept.lower()


class Served(NamedTuple):
    """What is counted of a request beside its time; `operation` is chat or text_completion."""

    path: str
    operation: str
    outcome: str
    n_prompt: int
    trace_id: str | None = None


class ServerMetrics:
    """Every series of one server.

    Attributes:
        engines: What engines and collectors add to by themselves.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.engines = EngineSeries()
        own = (
            self.engines.itl, self.engines.batch, self.engines.gc_pause,
            *(
                Histograms(metric)
                for metric in (
                    catalogue.INFER_DURATION, catalogue.PHASE_DURATION, catalogue.TTFT,
                    catalogue.LOOP_LAG,
                )
            ),
        )  # fmt: skip
        self._histograms = {family.metric: family for family in own}
        self._values = {
            metric: Values(metric)
            for metric in catalogue.SERVER_METRICS
            if metric.type != "histogram"
        } | {catalogue.GC_ALLOCATED: self.engines.gc_allocated}
        self._vllm = VllmNames(options.model_name)
        self._genai = GenAiMetrics(options.model_name) if options.genai_metrics else None
        self._energy = Energy()
        for word in options.faults.words:
            self._values[catalogue.FAULT_INFO].set(1, word)

    @property
    def loop_lag(self) -> Histograms:
        """What `LoopLag` writes to."""
        return self._histograms[catalogue.LOOP_LAG]

    def record_finished(self, request: Served, timings: Timings, unix_s: float) -> None:
        """Count a request that ran to its end."""
        path = request.path
        self._values[catalogue.REQUESTS].add(1, path, request.outcome)
        self._values[catalogue.PROMPT_TOKENS].add(request.n_prompt, path)
        self._values[catalogue.OUTPUT_TOKENS].add(timings.n_output, path)
        for phase, seconds in timings.phases.items():
            self._histograms[catalogue.PHASE_DURATION].observe(seconds, phase, path)
        traced = ((catalogue.INFER_DURATION, timings.wall_s), (catalogue.TTFT, timings.ttft_s))
        for metric, value in traced:
            if value is None:
                continue
            series = self._histograms[metric].of(path)
            place = series.observe(value)
            if request.trace_id is not None:
                series.trace(place, Exemplar(request.trace_id, value, unix_s))
        self._vllm.record_finished(timings.phases)
        if self._genai is not None:
            self._genai.record_finished(request.operation, timings)

    def record_broken(self, request: Served, wall_s: float) -> None:
        """Count a request that was cancelled or failed; its time is no inference time."""
        self._values[catalogue.REQUESTS].add(1, request.path, request.outcome)
        if self._genai is not None:
            self._genai.record_broken(request.operation, request.outcome, wall_s)

    def record_refused(self, status: int) -> None:
        """Count an error answer."""
        self._values[catalogue.REFUSED].add(1, str(status))
        self._values[catalogue.REFUSED_5XX].add(int(status >= _SERVER_ERROR))

    def expose(
        self, pools: Pools, queue: JournalQueue, pauses: GcPauses, *, is_open: bool
    ) -> bytes:
        """Render everything, with the engines' latest state."""
        self._set_pools(pools)
        self._set_store(queue)
        self._set_machine(pools, pauses)
        families: list[Family] = [*self._histograms.values(), *self._values.values()]
        if self._genai is not None:
            families += self._genai.families
        if not is_open:
            families += self._vllm.follow(self._values, self._histograms)
        return render(families, is_open=is_open)

    def _set_pools(self, pools: Pools) -> None:
        """Take over which pools serve, and what each last told of itself."""
        values = self._values
        for pool in pools.members:
            told = {**pool.link.state, "kv_capacity": pool.kv_tokens}
            values[catalogue.POOL_UP].set(int(pool.link.is_alive), pool.name)
            values[catalogue.RESTARTS].set(pools.restarts[pool.name], pool.name)
            for word, metric in _COUNTERS.items():
                values[metric].set(told[word], pool.name)
            for word, metric in _GAUGES.items():
                # What a dead process holds cannot be read; what it counted stays.
                _set_or_drop(values[metric], told[word] if pool.link.is_alive else None, pool.name)

    def _set_store(self, queue: JournalQueue) -> None:
        """Take over what the journal counts."""
        values, connections = self._values, queue.journal.connections
        values[catalogue.JOURNAL_FAILURES].set(queue.journal.n_failed)
        values[catalogue.JOURNAL_WAITS].set(queue.n_waits)
        values[catalogue.STORE_IN_USE].set(connections.in_use)
        values[catalogue.STORE_LIMIT].set(connections.limit)
        values[catalogue.STORE_WAITING].set(queue.n_waiting + connections.n_waiting)

    def _set_machine(self, pools: Pools, pauses: GcPauses) -> None:
        """Read memory and energy, where they can be read."""
        heap = self._values[catalogue.HEAP]
        _set_or_drop(heap, private_bytes(os.getpid()), FRONT)
        for pool in pools.members:
            _set_or_drop(heap, private_bytes(pool.pid) if pool.link.is_alive else None, pool.name)
        self._values[catalogue.GC_ALLOCATED].set(pauses.n_allocated, FRONT)
        for source, joules in self._energy.joules().items():
            self._values[catalogue.ENERGY].set(joules, source)


def _set_or_drop(values: Values, value: float | None, label: str) -> None:
    if value is None:
        values.drop(label)
    else:
        values.set(value, label)
