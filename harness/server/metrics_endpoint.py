"""`/metrics`: the server's series in text format 0.0.4, built from the catalogue.

Rendered here and not by prometheus-client's registry: with dense buckets that takes tens of
milliseconds per scrape, in the event loop that sends tokens, and would show up in the very tail
that is being measured. This takes about one; prometheus-client's parser checks it in the tests.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from harness.metrics.catalogue import server as catalogue
from harness.server.faults import NO_FAULTS, Faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.metrics.catalogue.metric import Metric
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
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Values:
    """A counter or gauge: one number per combination of label values."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values: dict[tuple[str, ...], float] = {} if metric.labels else {(): 0}

    def add(self, amount: float, *labels: str) -> None:
        """Add to one series."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def set(self, value: float, *labels: str) -> None:
        """Set one series."""
        self._values[labels] = value

    def drop(self, *labels: str) -> None:
        """Forget one series, if it is there."""
        self._values.pop(labels, None)

    def lines(self) -> Iterator[str]:
        """Render every series."""
        for labels, value in self._values.items():
            yield f"{self.metric.name}{_label_text(self.metric, labels)} {value}"


class _Series:
    """One histogram series; `names` are its lines up to the value, made once."""

    def __init__(self, metric: Metric, labels: tuple[str, ...]) -> None:
        bounds = [*(repr(bound) for bound in metric.buckets), "+Inf"]
        self.counts = [0] * len(bounds)
        self.total = 0.0
        self.names = [
            f"{metric.name}_bucket{_label_text(metric, labels, le=bound)}" for bound in bounds
        ]
        self.suffix = _label_text(metric, labels)


class Histograms:
    """A histogram with classic buckets: one series per combination of label values."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._series: dict[tuple[str, ...], _Series] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(self.metric, labels)
        series.counts[bisect_left(self.metric.buckets, value)] += 1
        series.total += value

    def lines(self) -> Iterator[str]:
        """Render every series; bucket counts are cumulative."""
        for series in self._series.values():
            for name, count in zip(series.names, accumulate(series.counts), strict=True):
                yield f"{name} {count}"
            yield f"{self.metric.name}_count{series.suffix} {sum(series.counts)}"
            yield f"{self.metric.name}_sum{series.suffix} {series.total!r}"


def _label_text(metric: Metric, labels: tuple[str, ...], **extra: str) -> str:
    """Render labels; their values are this server's own words and need no escaping."""
    pairs = [*zip(metric.labels, labels, strict=True), *extra.items()]
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}" if pairs else ""


class ServerMetrics:
    """Every series of one server."""

    def __init__(self, faults: Faults = NO_FAULTS) -> None:
        self._infer = Histograms(catalogue.INFER_DURATION)
        self._phase = Histograms(catalogue.PHASE_DURATION)
        self._values = {
            metric: Values(metric)
            for metric in catalogue.SERVER_METRICS
            if metric.type != "histogram"
        }
        for word in faults.words:
            self._values[catalogue.FAULT_INFO].set(1, word)

    def record_finished(self, path: str, outcome: str, n_prompt: int, timings: Timings) -> None:
        """Count a request that ran to its end."""
        self._values[catalogue.REQUESTS].add(1, path, outcome)
        self._values[catalogue.PROMPT_TOKENS].add(n_prompt, path)
        self._values[catalogue.OUTPUT_TOKENS].add(timings.n_output, path)
        self._infer.observe(timings.wall_s, path)
        for phase, seconds in timings.phases.items():
            self._phase.observe(seconds, phase, path)

    def record_broken(self, path: str, outcome: str) -> None:
        """Count a request that was cancelled or failed; its time is no inference time."""
        self._values[catalogue.REQUESTS].add(1, path, outcome)

    def record_refused(self, status: int) -> None:
        """Count an error answer."""
        self._values[catalogue.REFUSED].add(1, str(status))

    def expose(self, pools: Pools, n_journal_failures: int, n_journal_waits: int) -> bytes:
        """Render everything, with the engines' latest gauges."""
        self._set_pools(pools)
        self._values[catalogue.JOURNAL_FAILURES].set(n_journal_failures)
        self._values[catalogue.JOURNAL_WAITS].set(n_journal_waits)
        return self._render()

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
                if pool.link.is_alive:
                    values[metric].set(told[word], pool.name)
                else:  # what a dead process holds cannot be read; what it counted stays
                    values[metric].drop(pool.name)

    def _render(self) -> bytes:
        lines: list[str] = []
        families: list[Histograms | Values] = [self._infer, self._phase, *self._values.values()]
        for family in families:
            metric = family.metric
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}"]
            lines += family.lines()
        return "\n".join([*lines, ""]).encode()
