"""What prometheus-client renders is read back equal; junk never raises but the one named error."""

import contextlib
import math
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from harness.importers.metrics_text import NoMetrics, SeriesKey, read_metrics

TEXTS = st.text(max_size=12)
Renderer = Callable[[CollectorRegistry], bytes]
RENDERERS = st.sampled_from([generate_latest, generate_openmetrics])
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
BOUNDS = st.lists(
    st.floats(1e-6, 1e9, allow_nan=False), min_size=1, max_size=5, unique=True
).map(sorted)  # fmt: skip
SCRAPS = st.sampled_from(
    [b"x", b"vllm:y", b"{", b"}", b'a="b"', b'le="1e+06"', b'"', b"\\", b",", b" ", b"1", b"-nan",
     b"# TYPE x counter", b"\n", b"\r", b"\x00", b"\xff", b"<html>", b"e", b"# {", b"=", b"+Inf"]
)  # fmt: skip


def registry(
    label: str, value: float, observed: list[float], bounds: list[float]
) -> CollectorRegistry:
    """A gauge, a counter and a histogram, the label's value in each."""
    made = CollectorRegistry()
    Gauge("g", "A \\ gauge\nof two lines", ["m"], registry=made).labels(label).set(value)
    Counter("c", "A counter", ["m", "b"], registry=made).labels(label, "x").inc(abs(value))
    histogram = Histogram("h", "A histogram", ["m"], registry=made, buckets=bounds).labels(label)
    for each in observed:
        histogram.observe(each)
    return made


def told(made: CollectorRegistry) -> dict[SeriesKey, float]:
    """Every sample as prometheus-client itself tells it, bounds as numbers."""
    return {
        (sample.name, tuple(sorted(_number(*pair) for pair in sample.labels.items()))): sample.value
        for family in made.collect()
        for sample in family.samples
    }


def _number(name: str, value: str) -> tuple[str, str]:
    return (
        (name, "+Inf" if value == "+Inf" else repr(float(value))) if name == "le" else (name, value)
    )


@given(TEXTS, NUMBERS, st.lists(st.floats(0, 1e6), max_size=5), BOUNDS, RENDERERS)
def test_what_prometheus_client_renders_is_read_back_equal(
    label: str, value: float, observed: list[float], bounds: list[float], render: Renderer
) -> None:
    """Names, labels with any character, values and bounds; in both text formats."""
    made = registry(label, value, observed, bounds)
    page, wanted = read_metrics(render(made)), told(made)
    assert page.values.keys() == wanted.keys()
    for key, number in page.values.items():
        assert number == wanted[key] or math.isnan(number) is math.isnan(wanted[key]) is True
    assert page.anomalies == {}


@given(st.one_of(st.binary(max_size=200), st.lists(SCRAPS, max_size=30).map(b"".join)))
def test_junk_raises_the_named_error_or_nothing(body: bytes) -> None:
    """Whatever bytes come, they are read, counted or refused; what was read are numbers."""
    with contextlib.suppress(NoMetrics):
        page = read_metrics(body)
        assert all(isinstance(value, float) for value in page.values.values())
        assert read_metrics(body, {}).values.keys() == page.values.keys()
