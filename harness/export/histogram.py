"""A latency histogram that counts arrays: the catalogue's buckets, a sum, a trace a bucket."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from harness.export.family import Point
from harness.metrics.catalogue.metric import Metric


class Trace(NamedTuple):
    """A request that an exemplar may name.

    Attributes:
        id: its trace id.
        at_s: when it was over, seconds since the epoch; None where no clock is known.
    """

    id: str
    at_s: float | None


class Histogram:
    """Counts of one metric in one cell; bucket `i` holds what is above bound `i - 1`.

    Attributes:
        n: values counted.
    """

    def __init__(self, metric: Metric) -> None:
        self._bounds = np.array(metric.buckets)
        self._le = [*map(floatToGoString, metric.buckets), "+Inf"]
        self._counts = np.zeros(len(metric.buckets) + 1, dtype=np.int64)
        self._sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}
        self._exemplar_at_s: dict[int, float] = {}
        self.n = 0

    def add(self, values: NDArray[np.float64], traces: Sequence[Trace] = ()) -> None:
        """Count these seconds; where each has a trace, the latest of a bucket is its exemplar."""
        is_known = np.isfinite(values)
        known = values[is_known]
        buckets = np.searchsorted(self._bounds, known, side="left")  # a bound is in its own bucket
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._sum += float(known.sum())
        self.n += len(known)
        if traces:
            named = (traces[i] for i in np.flatnonzero(is_known).tolist())
            for bucket, value, trace in zip(buckets.tolist(), known.tolist(), named, strict=True):
                self._note(bucket, value, trace)

    def points(self, labels: tuple[str, ...]) -> Iterator[Point]:
        """Cumulative buckets, count and sum, as Prometheus wants them."""
        for i, (le, n) in enumerate(zip(self._le, self._counts.cumsum().tolist(), strict=True)):
            yield Point(labels, n, "_bucket", le, self._exemplars.get(i))
        yield Point(labels, self.n, "_count")
        yield Point(labels, self._sum, "_sum")

    def _note(self, bucket: int, value: float, trace: Trace) -> None:
        """Prometheus refuses an exemplar that is older than the one it has."""
        at_s = -np.inf if trace.at_s is None else trace.at_s
        if at_s >= self._exemplar_at_s.get(bucket, -np.inf):
            self._exemplar_at_s[bucket] = at_s
            self._exemplars[bucket] = Exemplar({"trace_id": trace.id}, value, trace.at_s)
