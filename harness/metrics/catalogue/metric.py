"""What a metric of the catalogue is, and the bucket bounds that histograms share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Full exposed name; a counter's ends in `_total`.
        unit: Base unit, empty for a plain count.
        help: One sentence.
        labels: Label names in order.
        buckets: Upper bounds of a histogram, without +Inf.
    """

    name: str
    type: MetricType
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def counter(name: str, text: str, *labels: str, unit: str = "") -> Metric:
    """A count that only grows."""
    return Metric(name=name, type="counter", help=text, labels=labels, unit=unit)


def gauge(name: str, text: str, *labels: str, unit: str = "") -> Metric:
    """A value that goes up and down."""
    return Metric(name=name, type="gauge", help=text, labels=labels, unit=unit)


def latency(name: str, text: str, *labels: str) -> Metric:
    """A histogram of seconds."""
    return Metric(
        name=name, type="histogram", help=text, labels=labels, unit="seconds",
        buckets=LATENCY_BUCKETS,
    )  # fmt: skip


def _geometric(low: float, high: float, ratio: float) -> list[float]:
    """Bounds from `low` up to `high` (exclusive), each `ratio` times the last, three digits."""
    bounds, value = [], low
    while value < high * 0.999:
        bounds.append(float(f"{value:.3g}"))
        value *= ratio
    return bounds


# Limits that people promise: only an edge can be counted by exactly.
_PROMISED: Final = (
    0.02,
    0.025,
    0.04,
    0.05,
    0.06,
    0.08,
    0.2,
    0.25,
    0.3,
    0.4,
    0.5,
    2.0,
    2.5,
    3.0,
    5.0,
)

# Classic buckets answer a quantile to within one bucket: 10 % steps where latencies are judged
# (ratio 10^(1/24)), coarser outside.
LATENCY_BUCKETS: Final = tuple(
    sorted(
        {
            0.0001,
            0.0002,
            0.0005,
            *_geometric(0.001, 1.0, 10 ** (1 / 24)),
            *_geometric(1.0, 10.0, 10 ** (1 / 8)),
            *_PROMISED,
            10.0,
            20.0,
            50.0,
            100.0,
        }
    )
)
