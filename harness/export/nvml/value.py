"""One number of a device, as the catalogue names it, and how a group of them is asked for."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.metrics.catalogue.metric import Metric

if TYPE_CHECKING:
    from harness.export.nvml.device import Device


class Value(NamedTuple):
    """One series of a device.

    Attributes:
        metric: of `harness.metrics.catalogue.gpu`.
        value: in the metric's unit.
        labels: those that the metric has beyond its device's, in order.
    """

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


class Probe(NamedTuple):
    """One call of NVML, and the metrics that it can give.

    Attributes:
        metrics: what is unsupported where the call is.
        read: the values; None where there are none yet.
    """

    metrics: tuple[Metric, ...]
    read: Callable[["Device"], Sequence[Value] | None]
