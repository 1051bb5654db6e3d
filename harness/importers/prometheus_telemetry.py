"""What a Prometheus holds of some stretches of time, as telemetry that windows can read.

Asks for the names of the catalogue and those of known engines, each with its own range query; an
instance of a job is a source. Engines' own names are told in canonical quantities as well. One row
a change, as a run keeps it: a series that ends has a row without a value, and `up` a row at each
step, so that absent is never taken for zero.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pandas as pd

from harness.base.errors import SetupError
from harness.base.moment import utc_span
from harness.importers.engines import ENGINES
from harness.importers.engines.bundled import BUNDLED
from harness.importers.engines.canonical import detect_engine, translate
from harness.importers.engines.engine import Engine
from harness.importers.metrics_text import Page
from harness.importers.prometheus_api import PrometheusApi, Series
from harness.metrics.catalogue.gpu import DCGM_METRICS, GPU_METRICS
from harness.metrics.catalogue.load import LOAD_METRICS
from harness.metrics.catalogue.process import PROCESS_METRICS
from harness.metrics.catalogue.server import SERVER_METRICS
from harness.records.telemetry import UP, Labels, Reading, to_readings

N_STEPS: Final = 240
NO_LABELS: Final[Mapping[str, str]] = {}
SHORTEST_STEP_S: Final = 1.0
_HIDDEN: Final = frozenset({"__name__", "job", "instance"})
_PREFIXES: Final = sorted(
    prefix.rstrip("_") for each in ENGINES if each is not BUNDLED for prefix in each.prefixes
)

Span = tuple[float, float]
Key = tuple[str, Labels]
Values = dict[int, float]
"""By step."""


def read_prometheus(
    api: PrometheusApi, spans: Sequence[Span], match: Mapping[str, str] = NO_LABELS
) -> pd.DataFrame:
    """Rows of every known metric in these stretches, with the columns of `records.telemetry`.

    Only series with all the labels of `match`, where it has any.

    Raises:
        SetupError: no Prometheus answers there, or it holds nothing of this time.
    """
    declared = Page(values={}, kinds=api.types(), anomalies={})
    rows = list(_all_spans(api, spans, match, declared))
    if not any(row.name != UP for row in rows):
        told = " and ".join(map(utc_span, spans))
        raise SetupError(
            f"{api.url} holds none of our metrics, and none of a known engine, from "
            f"{told}; look at its targets, or choose another time{' or --match' if match else ''}"
        )
    return to_readings(rows)


def queries(match: Mapping[str, str] = NO_LABELS) -> list[str]:
    """One selector a metric; a histogram's series together, and all of the known engines."""
    metrics = (*SERVER_METRICS, *LOAD_METRICS, *PROCESS_METRICS, *GPU_METRICS, *DCGM_METRICS)
    plain = [UP, *(each.name for each in metrics if each.type != "histogram")]
    patterns = [f"{each.name}_(bucket|sum|count)" for each in metrics if each.type == "histogram"]
    patterns.append(f"({'|'.join(_PREFIXES)})[:_].+")
    wanted = ",".join(f"{name}={json.dumps(value)}" for name, value in match.items())
    return [
        *(f"{name}{{{wanted}}}" if wanted else name for name in plain),
        *(f'{{__name__=~"{each}"{wanted and ","}{wanted}}}' for each in patterns),
    ]


def _all_spans(
    api: PrometheusApi, spans: Sequence[Span], match: Mapping[str, str], declared: Page
) -> Iterator[Reading]:
    """The rows of each stretch; a series that a later one has not got ends where it begins."""
    known: dict[tuple[str, Key], Reading] = {}
    for start, end in sorted(spans):
        rows = list(_span(api, (start, end), match, declared))
        here = {(row.source, (row.name, row.labels)): row for row in rows}
        for place, row in known.items():
            if place not in here and row.name != UP:
                yield row._replace(time_unix_ns=round(start * 1e9), value=None)
        yield from rows
        known |= here


def _span(
    api: PrometheusApi, span: Span, match: Mapping[str, str], declared: Page
) -> Iterator[Reading]:
    start, end = span
    step = max(SHORTEST_STEP_S, (end - start) / N_STEPS)
    sources: dict[str, dict[Key, Values]] = defaultdict(lambda: defaultdict(dict))
    for query in queries(match):
        for each in api.query_range(query, start=start, end=end, step_s=step):
            held = sources[_source(each)][_key(each)]
            for time, value in zip(each.times, each.values, strict=True):
                if start <= time <= end + step:  # of what was asked for
                    held[round((time - start) / step)] = value
    for source, series in sources.items():
        n_steps = 1 + max(place for values in series.values() for place in values)
        engine = detect_engine(_page(dict.fromkeys(series, 0.0)))
        for key, values in [*series.items(), *_canonical(series, engine, n_steps).items()]:
            for place, told in _told(key, values, n_steps):
                time_ns = round((start + place * step) * 1e9)
                yield Reading(time_ns, source, *key, told, _kind(key[0], engine, declared))


def _source(series: Series) -> str:
    """Job and instance: two jobs may scrape one instance, and tell the same names."""
    parts = (series.labels.get("job", ""), series.labels.get("instance", ""))
    return "/".join(part for part in parts if part)


def _key(series: Series) -> Key:
    name = series.labels.get("__name__", "")
    if name == UP:
        return UP, ()
    return name, tuple(sorted(pair for pair in series.labels.items() if pair[0] not in _HIDDEN))


def _told(key: Key, values: Values, n_steps: int) -> Iterator[tuple[int, float | None]]:
    """Steps at which a value changed, or was no longer there; every step of `up`."""
    last: float | None = None
    for place in range(n_steps):
        value: float | None = values.get(place)
        if value is not None and math.isnan(value):
            value = None
        if value != last or (key[0] == UP and value is not None):
            yield place, value
        last = value


def _canonical(
    series: Mapping[Key, Values], engine: Engine | None, n_steps: int
) -> dict[Key, Values]:
    """The same in canonical quantities, for an engine that is not ours."""
    found: dict[Key, Values] = defaultdict(dict)
    if engine is None or engine is BUNDLED:
        return found
    for place in range(n_steps):
        here = {key: values[place] for key, values in series.items() if place in values}
        translated = translate(_page(here), engine)
        for key, value in translated.values.items():  # noqa: PD011  no frame
            found[key][place] = value
    return found


def _page(values: Mapping[Key, float]) -> Page:
    return Page(values=values, kinds={}, anomalies={})


def _kind(name: str, engine: Engine | None, declared: Page) -> str:
    """Known better, or as declared; where neither says it, what the name says."""
    known = engine.kinds.get(name.replace(":", "_")) if engine is not None else None
    told = known or declared.kind_of(name)
    if told != "unknown":
        return told
    if name.endswith("_total"):
        return "counter"
    return "histogram" if name.endswith(("_bucket", "_sum", "_count")) else "gauge"
