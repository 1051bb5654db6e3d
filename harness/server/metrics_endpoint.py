"""`/metrics`: the server's series in text format 0.0.4, built from the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from harness.metrics import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.metrics.catalogue import Metric
    from harness.server.timings import Timings

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics:
    """Every series of one server, in a registry of its own."""

    def __init__(self, kv_capacity: int) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped upstream
        self.registry = CollectorRegistry()
        self._infer = self._histogram(catalogue.INFER_DURATION)
        self._phase = self._histogram(catalogue.PHASE_DURATION)
        self._requests = self._counter(catalogue.REQUESTS)
        self._refused = self._counter(catalogue.REFUSED)
        self._prompt_tokens = self._counter(catalogue.PROMPT_TOKENS)
        self._output_tokens = self._counter(catalogue.OUTPUT_TOKENS)
        self._evictions = self._counter(catalogue.EVICTIONS)
        self._journal_failures = self._counter(catalogue.JOURNAL_FAILURES)
        self._running = self._gauge(catalogue.RUNNING)
        self._waiting = self._gauge(catalogue.WAITING)
        self._kv_held = self._gauge(catalogue.KV_HELD)
        self._gauge(catalogue.KV_CAPACITY).set(kv_capacity)
        self._seen: dict[str, int] = {"evictions": 0, "journal": 0}

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(
            metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self.registry
        )

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def record_finished(self, path: str, outcome: str, n_prompt: int, timings: Timings) -> None:
        """Count a request that ran to its end."""
        self._requests.labels(path, outcome).inc()
        self._prompt_tokens.labels(path).inc(n_prompt)
        self._output_tokens.labels(path).inc(timings.n_output)
        self._infer.labels(path).observe(timings.wall_s)
        for phase, seconds in timings.phases.items():
            self._phase.labels(phase, path).observe(seconds)

    def record_broken(self, path: str, outcome: str) -> None:
        """Count a request that was cancelled or failed; its time is no inference time."""
        self._requests.labels(path, outcome).inc()

    def record_refused(self, status: int) -> None:
        """Count an error answer."""
        self._refused.labels(str(status)).inc()

    def expose(self, gauges: Mapping[str, int], n_journal_failures: int) -> bytes:
        """Render everything, with the engine's latest gauges."""
        self._running.set(gauges["running"])
        self._waiting.set(gauges["waiting"])
        self._kv_held.set(gauges["kv_held"])
        self._advance(self._evictions, "evictions", gauges["evictions"])
        self._advance(self._journal_failures, "journal", n_journal_failures)
        return generate_latest(self.registry)

    def _advance(self, counter: Counter, name: str, total: int) -> None:
        """Bring a counter up to a total kept elsewhere; it never goes back."""
        counter.inc(max(0, total - self._seen[name]))
        self._seen[name] = max(total, self._seen[name])
