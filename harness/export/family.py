"""From a metric of the catalogue to a family that prometheus-client writes.

A family without samples is left out: what cannot be read has no series.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Exemplar, Timestamp

from harness.metrics.catalogue.metric import Metric


class Point(NamedTuple):
    """One series at one time.

    Attributes:
        labels: a value for every label of the metric, in its order.
        value: what it is.
        suffix: what the sample's name has after a histogram's: `_bucket`, `_count` or `_sum`.
        le: bound of a bucket.
        exemplar: a request that is in this bucket.
        at: time of the sample; None for now.
    """

    labels: tuple[str, ...]
    value: float
    suffix: str = ""
    le: str | None = None
    exemplar: Exemplar | None = None
    at: Timestamp | float | None = None


def families(points: Mapping[Metric, Iterable[Point]]) -> Iterator[Family]:
    """Each metric that has points, as prometheus-client wants it."""
    for metric, each in points.items():
        family = build_family(metric, each)
        if family.samples:
            yield family


def build_family(metric: Metric, points: Iterable[Point]) -> Family:
    """The metric with these points; its type and unit are the catalogue's.

    A counter by dcgm-exporter's name has no `_total`, which prometheus-client would demand of a
    counter: it is exposed without a type.
    """
    is_foreign = metric.type == "counter" and not metric.name.endswith("_total")
    name = metric.name.removesuffix("_total") if metric.type == "counter" else metric.name
    kind = "unknown" if is_foreign else metric.type
    family = Family(name, metric.help, kind, metric.unit)
    for point in points:
        labels = dict(zip(metric.labels, point.labels, strict=True))
        if point.le is not None:
            labels["le"] = point.le
        family.add_sample(metric.name + point.suffix, labels, point.value, point.at, point.exemplar)
    return family
