"""Telemetry of a server that was never there: every figure known, faults planted at a second."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.metrics.catalogue import gpu, load, process, server
from harness.metrics.catalogue.metric import LATENCY_BUCKETS, Metric
from harness.metrics.window import Telemetry, Window
from harness.records.telemetry import Labels, Reading, to_readings

START_S = 1_800_000_000


@dataclass(frozen=True, kw_only=True)
class Life:
    """What a second of the server is like; the defaults are healthy."""

    rate: float = 8.0
    prompt: float = 200.0
    output: float = 20.0
    collections: float = 0.2
    gc_pause_s: float = 0.004
    objects: float = 2000.0
    heap: float = 300e6
    heap_growth: float = 0.0
    store_s: float = 0.002
    store_taken: float = 2.0
    store_waiting: float = 0.0
    kv_wait_s: float = 0.002
    evicted: float = 0.0
    kv_held: float = 0.5
    hits: float = 0.4
    running: float = 4.0
    waiting: float = 0.5
    errors: float = 0.0
    pool_up: float = 1.0
    attention_s: float = 0.05
    ttft_s: float = 0.06
    lag_s: float = 0.0005
    loop_lag_s: float = 0.002
    busy: float = 0.5
    involuntary: float = 20.0
    throttled: float = 0.0


HEALTHY = Life()


class _Book:
    """Counters and gauges as they stand, written down at each scrape."""

    def __init__(self) -> None:
        self.counters: dict[tuple[str, Labels], float] = {}
        self.gauges: dict[tuple[str, Labels], float] = {}

    def add(self, metric: Metric, amount: float, suffix: str = "", **labels: str) -> None:
        key = (metric.name + suffix, tuple(sorted(labels.items())))
        self.counters[key] = self.counters.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        self.gauges[metric.name, tuple(sorted(labels.items()))] = value

    def observe(self, metric: Metric, values: np.ndarray, **labels: str) -> None:
        for bound in LATENCY_BUCKETS[::8]:
            n = float((values <= bound).sum())
            self.add(metric, n, "_bucket", le=repr(bound), **labels)
        self.add(metric, float(values.size), "_bucket", le="+Inf", **labels)
        self.add(metric, float(values.size), "_count", **labels)
        self.add(metric, float(values.sum()), "_sum", **labels)

    def rows(self, time_s: float) -> Iterator[Reading]:
        time_ns = round(time_s * 1e9)
        yield Reading(time_ns, "server", "up", (), 1.0, "gauge")
        for (name, labels), value in self.counters.items():
            kind = "counter" if name.endswith("_total") else "histogram"
            yield Reading(time_ns, "server", name, labels, value, kind)
        for (name, labels), value in self.gauges.items():
            yield Reading(time_ns, "server", name, labels, value, "gauge")


def make_telemetry(seed: int, **how: Any) -> Telemetry:
    """What `make_rows` writes down, ready to be asked."""
    return Telemetry(to_readings(make_rows(seed, **how)))


def make_rows(
    seed: int,
    *,
    seconds: int = 120,
    fault_at: int = 60,
    life: Life = HEALTHY,
    later: dict[int, dict[str, Any]] | None = None,
    **fault: Any,
) -> list[Reading]:
    """A second-by-second account: `fault` changes life from `fault_at` on, `later` even later."""
    rng, book = np.random.default_rng(seed), _Book()
    rows: list[Reading] = []
    changes = {fault_at: fault, **(later or {})}
    for second in range(seconds):
        life = replace(life, **changes.get(second, {}))
        _live(book, life, rng, second - fault_at)
        rows += list(book.rows(START_S + second))
    return rows


def windows(telemetry: Telemetry, fault_at: int = 60) -> tuple[Window, Window]:
    """The healthy time and the fault."""
    start, end = telemetry.span
    return telemetry.window((start, start + fault_at - 1)), telemetry.window(
        (start + fault_at - 1, end)
    )


def _live(book: _Book, life: Life, rng: np.random.Generator, since: int) -> None:
    n = int(rng.poisson(life.rate))
    n_bad = int(rng.binomial(n, life.errors)) if life.errors else 0
    _requests(book, life, rng, n - n_bad)
    book.add(server.REFUSED_5XX, n_bad)
    if n_bad:
        book.add(server.REFUSED, n_bad, status="503")
    pauses = np.full(int(rng.poisson(life.collections)), life.gc_pause_s)
    book.observe(server.GC_PAUSE, pauses, process="engine", generation="2")
    book.add(server.GC_ALLOCATED, life.objects * n, process="engine")
    grown = life.heap_growth * max(0, since)
    book.set(server.HEAP, life.heap + grown + 1e6 * rng.standard_normal(), process="engine")
    book.observe(server.LOOP_LAG, life.loop_lag_s * rng.lognormal(0, 0.3, 50))
    _gauges(book, life, rng)
    book.add(process.HOST_CPU, 2 * (1 - life.busy), mode="idle")
    book.add(process.HOST_CPU, 2 * life.busy, mode="user")
    book.add(process.PROCESS_CPU, 2 * life.busy, process="engine", pid="7")
    book.add(
        process.PROCESS_SWITCHES, life.involuntary, process="engine", pid="7", kind="involuntary"
    )
    book.set(gpu.GPU_THROTTLE, life.throttled, gpu="0", uuid="u", reason="sw_thermal_slowdown")


def _requests(book: _Book, life: Life, rng: np.random.Generator, n: int) -> None:
    noise = rng.lognormal(0, 0.2, n)
    book.add(server.REQUESTS, n, path="baseline", outcome="length")
    book.add(server.PROMPT_TOKENS, n * life.prompt, path="baseline")
    book.add(server.OUTPUT_TOKENS, n * life.output, path="baseline")
    book.add(server.EVICTIONS, n * life.evicted, pool="p")
    book.add(server.PREFIX_QUERIES, n * life.prompt, pool="p")
    book.add(server.PREFIX_HITS, n * life.prompt * life.hits, pool="p")
    phases = {"attention": life.attention_s, "store": life.store_s, "kv_wait": life.kv_wait_s}
    for phase, seconds in phases.items():
        book.observe(server.PHASE_DURATION, seconds * noise, phase=phase, path="baseline")
    book.observe(server.INFER_DURATION, sum(phases.values()) * noise, path="baseline")
    cell = dict.fromkeys(load.CELL_LABELS, "x")
    book.observe(load.LOAD_TTFT, life.ttft_s * noise, **cell)
    book.observe(load.DISPATCH_LAG, life.lag_s * noise, **cell)


def _gauges(book: _Book, life: Life, rng: np.random.Generator) -> None:
    book.set(server.RUNNING, float(rng.poisson(life.running)), pool="p")
    book.set(server.WAITING, float(rng.poisson(life.waiting)), pool="p")
    book.set(server.KV_HELD, 1000 * life.kv_held + float(rng.integers(0, 50)), pool="p")
    book.set(server.KV_CAPACITY, 1000.0, pool="p")
    book.set(server.POOL_UP, life.pool_up, pool="p")
    book.set(server.STORE_IN_USE, min(32.0, life.store_taken + float(rng.integers(0, 2))))
    book.set(server.STORE_LIMIT, 32.0)
    book.set(server.STORE_WAITING, life.store_waiting)
