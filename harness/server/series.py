"""Series of one metric and their lines, in text format 0.0.4 or as OpenMetrics.

Rendered here and not by prometheus-client's registry: with dense buckets that takes tens of
milliseconds per scrape, in the event loop that sends tokens, and would show up in the very tail
that is being measured. prometheus-client's parsers check it in the tests.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.metrics.catalogue.metric import Metric


class Exemplar(NamedTuple):
    """A request that fell into a bucket."""

    trace_id: str
    value: float
    unix_s: float


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

    def total(self, label: str | None = None) -> float:
        """Add up all series, or those that have this label value."""
        return sum(
            value for labels, value in self._values.items() if label is None or label in labels
        )

    def lines(self, *, is_open: bool) -> Iterator[str]:
        """Render every series; both formats write them alike."""
        del is_open
        for labels, value in self._values.items():
            yield f"{self.metric.name}{label_text(self.metric, labels)} {value}"


class Buckets:
    """One histogram series; `names` are its lines up to the value, made once."""

    def __init__(self, metric: Metric, labels: tuple[str, ...]) -> None:
        bounds = [*(repr(float(bound)) for bound in metric.buckets), "+Inf"]
        self._metric = metric
        self.counts = [0] * len(bounds)
        self.total = 0.0
        self._names = [
            f"{metric.name}_bucket{label_text(metric, labels, le=bound)} " for bound in bounds
        ]
        self._suffix = label_text(metric, labels)
        self._exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, n: int = 1) -> int:
        """Count a value `n` times; return its bucket."""
        place = bisect_left(self._metric.buckets, value)
        self.counts[place] += n
        self.total += value * n
        return place

    def trace(self, place: int, exemplar: Exemplar) -> None:
        """Keep the latest exemplar of a bucket."""
        self._exemplars[place] = exemplar

    def lines(self, *, is_open: bool) -> Iterator[str]:
        """Render; bucket counts are cumulative, exemplars are for OpenMetrics only."""
        counts = list(accumulate(self.counts))
        rows = list(map("%s%d".__mod__, zip(self._names, counts, strict=True)))
        if is_open:
            for place, (trace_id, value, unix_s) in self._exemplars.items():
                rows[place] += f' # {{trace_id="{trace_id}"}} {value!r} {unix_s:.3f}'
        yield from rows
        yield f"{self._metric.name}_count{self._suffix} {counts[-1]}"
        yield f"{self._metric.name}_sum{self._suffix} {self.total!r}"


class Histograms:
    """A histogram with classic buckets: one series per combination of label values."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._series: dict[tuple[str, ...], Buckets] = {}

    def of(self, *labels: str) -> Buckets:
        """Give one series, new if need be."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Buckets(self.metric, labels)
        return series

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        self.of(*labels).observe(value)

    def lines(self, *, is_open: bool) -> Iterator[str]:
        """Render every series."""
        for series in self._series.values():
            yield from series.lines(is_open=is_open)

    def copy_total(self, others: Histograms, *labels: str) -> None:
        """Take the sum of all series of another histogram of the same buckets as one of ours."""
        own = self.of(*labels)
        own.counts = [0] * len(own.counts)
        own.total = 0.0
        for series in others._series.values():
            own.counts = list(map(int.__add__, own.counts, series.counts))
            own.total += series.total


Family = Values | Histograms


def render(families: list[Family], *, is_open: bool) -> bytes:
    """Write families one after the other; an OpenMetrics text has an end."""
    lines: list[str] = []
    for family in families:
        lines += _head(family.metric, is_open=is_open)
        lines += family.lines(is_open=is_open)
    return "\n".join([*lines, *(["# EOF"] if is_open else []), ""]).encode()


def _head(metric: Metric, *, is_open: bool) -> Iterator[str]:
    """Describe a metric; OpenMetrics names a counter without `_total`, and tells the unit."""
    name = metric.name.removesuffix("_total") if is_open else metric.name
    yield f"# HELP {name} {_escaped(metric.help)}"
    yield f"# TYPE {name} {metric.type}"
    if is_open and metric.unit and name.endswith(f"_{metric.unit}"):
        yield f"# UNIT {name} {metric.unit}"


def label_text(metric: Metric, labels: tuple[str, ...], **extra: str) -> str:
    """Render labels; an empty one is none."""
    pairs = [*zip(metric.labels, labels, strict=True), *extra.items()]
    text = ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in pairs if value)
    return "{" + text + "}" if text else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text
