"""What a Prometheus holds of some stretches of time, as telemetry that windows can read.

Asks for the names of the catalogue and those of known engines, each with its own range query; an
instance is a source. One row a change, as a run keeps it: a series that ends has a row without a
value, and `up` a row at each step, so that absent is never taken for zero.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pandas as pd

from harness.base.errors import SetupError
from harness.importers.prometheus_api import PrometheusApi, Series
from harness.metrics.catalogue.gpu import DCGM_METRICS, GPU_METRICS
from harness.metrics.catalogue.load import LOAD_METRICS
from harness.metrics.catalogue.process import PROCESS_METRICS
from harness.metrics.catalogue.server import SERVER_METRICS
from harness.records.telemetry import UP, Labels, Reading, to_readings

N_STEPS: Final = 240
SHORTEST_STEP_S: Final = 1.0
FOREIGN: Final = "(vllm|sglang|tgi|llamacpp|trtllm|nv)[:_].+"
_HIDDEN: Final = frozenset({"__name__", "job", "instance"})

Span = tuple[float, float]


def read_prometheus(api: PrometheusApi, spans: Sequence[Span]) -> pd.DataFrame:
    """Rows of every known metric in these stretches, with the columns of `records.telemetry`.

    Raises:
        SetupError: no Prometheus answers there, or it holds nothing of this time.
    """
    rows = [row for span in spans for row in _span(api, span)]
    if not any(row.name != UP for row in rows):
        told = " and ".join(f"{start:.0f} to {end:.0f}" for start, end in spans)
        raise SetupError(
            f"{api.url} holds none of our metrics, and none of a known engine, at the unix times "
            f"{told}; look at its targets, or choose another time"
        )
    return to_readings(rows)


def _span(api: PrometheusApi, span: Span) -> Iterator[Reading]:
    start, end = span
    step = max(SHORTEST_STEP_S, (end - start) / N_STEPS)
    for each in api.query_range("up", start=start, end=end, step_s=step):
        yield from _up(each)
    for query in queries():
        for each in api.query_range(query, start=start, end=end, step_s=step):
            yield from _changes(each, end, step)


def queries() -> list[str]:
    """One selector a metric; a histogram's series together, and all of the known engines."""
    metrics = (*SERVER_METRICS, *LOAD_METRICS, *PROCESS_METRICS, *GPU_METRICS, *DCGM_METRICS)
    plain = [each.name for each in metrics if each.type != "histogram"]
    parts = [
        f'{{__name__=~"{each.name}_(bucket|sum|count)"}}'
        for each in metrics
        if each.type == "histogram"
    ]
    return [*plain, *parts, f'{{__name__=~"{FOREIGN}"}}']


def _up(series: Series) -> Iterator[Reading]:
    for time, value in zip(series.times, series.values, strict=True):
        yield Reading(_ns(time), _source(series), UP, (), value, "gauge")


def _changes(series: Series, end: float, step: float) -> Iterator[Reading]:
    """A row where the value changed, and one without a value where the series was not there."""
    name, labels = series.labels["__name__"], _labels(series)
    source, kind = _source(series), _kind(name)
    last: float | None = None
    at = series.times[0]
    for time, value in zip(series.times, series.values, strict=True):
        if time - at > 1.5 * step:
            yield Reading(_ns(at + step), source, name, labels, None, kind)
            last = None
        if value != last:
            yield Reading(_ns(time), source, name, labels, value, kind)
        last, at = value, time
    if end - at > 1.5 * step:
        yield Reading(_ns(at + step), source, name, labels, None, kind)


def _source(series: Series) -> str:
    return series.labels.get("instance", "")


def _labels(series: Series) -> Labels:
    return tuple(sorted(pair for pair in series.labels.items() if pair[0] not in _HIDDEN))


def _kind(name: str) -> str:
    if name.endswith("_total"):
        return "counter"
    return "histogram" if name.endswith(("_bucket", "_sum", "_count")) else "gauge"


def _ns(time: float) -> int:
    return round(time * 1e9)
