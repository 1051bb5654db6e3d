"""Reading metrics pages: ours, at first and again, beside prometheus-client's parser."""

import statistics
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from harness.importers.engines.canonical import detect_engine, translate
from harness.importers.metrics_source import Answer
from harness.importers.metrics_text import Heads, read_metrics
from harness.importers.row_changes import Changes
from harness.metrics.catalogue import server
from tools.bench_server.table import Table

PHASES: Final = 15
PATHS: Final = ("baseline", "accelerated")
N_REPEATS: Final = 5


def measure_pages(n_blocks: int) -> Table:
    """The table: milliseconds of processor time, the ways taking turns within a block."""
    body = _page()
    heads: Heads = {}
    read_metrics(body, heads)
    changes = Changes("target")
    ways: dict[str, Callable[[], object]] = {
        "prometheus-client": lambda: [
            sample
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        ],
        "ours, the first page": lambda: read_metrics(body),
        "ours, each later one": lambda: read_metrics(body, heads),
        "all of a scrape but the network": lambda: _scrape(body, heads, changes),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n_blocks * N_REPEATS):
        for name, way in ways.items():
            times[name].append(_once(way))
    n_lines = len(body.splitlines())
    table = Table(
        "metrics_pages",
        f"a page of {n_lines:,} lines: ms of processor time (median of {n_blocks * N_REPEATS})",
        ("way", "ms"),
    )
    for name, each in times.items():
        table.add(name, f"{1e3 * statistics.median(each):.2f}")
    return table


def _scrape(body: bytes, heads: Heads, changes: Changes) -> object:
    """Read, recognise, translate, compare with the last."""
    page = read_metrics(body, heads)
    engine = detect_engine(page)
    translated = translate(page, engine) if engine is not None else None
    return changes.answered(Answer(time_unix_ns=0, page=page, translated=translated))


def _page() -> bytes:
    """The bundled server's phases, as they are after some requests on both paths."""
    registry = CollectorRegistry()
    metric = server.PHASE_DURATION
    histogram = Histogram(
        metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry
    )
    for phase in range(PHASES):
        for path in PATHS:
            histogram.labels(str(phase), path).observe(0.01 * phase)
    page: bytes = generate_latest(registry)
    return page


def _once(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
