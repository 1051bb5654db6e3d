"""A Prometheus's answers as telemetry: what ends has no value, engines speak our words too."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from harness.base.errors import SetupError
from harness.findings.symptoms import Context, kv_pressure, queueing
from harness.importers.prometheus_api import PrometheusApi
from harness.importers.prometheus_telemetry import queries, read_prometheus
from harness.metrics.catalogue import canonical, server
from harness.metrics.window import Telemetry
from tests.small_server import serving

T0 = 1_800_000_000.0
AT = {"job": "llm", "instance": "10.0.0.1:8000"}


def series(name: str, values: dict[int, float], **labels: str) -> dict[str, Any]:
    """A series of a range answer, a value a second."""
    return {
        "metric": {"__name__": name} | AT | labels,
        "values": [[T0 + second, str(value)] for second, value in values.items()],
    }


def every(n: int, value: float = 0.0, slope: float = 0.0) -> dict[int, float]:
    return {second: value + slope * second for second in range(n + 1)}


@pytest.fixture
def held() -> list[dict[str, Any]]:
    """What the server below holds."""
    return [series("up", every(60, 1.0))]


@pytest.fixture
def api(held: list[dict[str, Any]]) -> Iterator[PrometheusApi]:
    """A server that answers range queries with the held series that the selector names."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            asked = parse_qs(address.query)
            if address.path.endswith("/metadata"):
                told = {name: [{"type": kind, "help": ""}] for name, kind in TYPES.items()}
                self.answer({"status": "success", "data": told})
                return
            query, start, end = asked["query"][0], asked["start"][0], asked["end"][0]
            found = []
            for each in held:
                name = each["metric"]["__name__"]
                inside = [v for v in each["values"] if float(start) <= v[0] <= float(end)]
                is_asked = name == query or ("vllm" in query and name.startswith(("vllm:", "tgi_")))
                if is_asked and inside:
                    found.append({**each, "values": inside})
            data = {"resultType": "matrix", "result": found}
            self.answer({"status": "success", "data": data})

        def answer(self, body: dict[str, Any]) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with serving(Handler) as url:
        yield PrometheusApi(url)


TYPES = {"tgi_request_count": "counter", "tgi_queue_size": "gauge"}


def read(api: PrometheusApi) -> Telemetry:
    return Telemetry(read_prometheus(api, [(T0, T0 + 60)]))


def test_a_counter_has_the_rate_it_had(held: list[dict[str, Any]], api: PrometheusApi) -> None:
    """Two evictions a second, told by source and without Prometheus's own labels."""
    held.append(series(server.EVICTIONS.name, every(60, 5.0, 2.0), pool="a"))
    telemetry = read(api)
    assert telemetry.sources == ["llm/10.0.0.1:8000"]
    assert telemetry.window().rate(server.EVICTIONS.name, pool="a") == pytest.approx(2)
    assert list(telemetry.window().series(server.EVICTIONS.name)) == [{"pool": "a"}]


def test_a_series_that_ends_has_no_value_afterwards(
    held: list[dict[str, Any]], api: PrometheusApi
) -> None:
    """A gauge that is gone after 20 s is absent, not held and not zero."""
    held.append(series(server.RUNNING.name, every(20, 3.0), pool="a"))
    telemetry = read(api)
    assert telemetry.window((T0, T0 + 20)).mean(server.RUNNING.name) == 3
    assert telemetry.window((T0 + 22, T0 + 60)).mean(server.RUNNING.name) is None


def test_a_series_of_the_first_stretch_only_is_absent_in_the_second(
    held: list[dict[str, Any]], api: PrometheusApi
) -> None:
    """A process that ended before the fault has no rate there, which is not a rate of zero."""
    name = server.REQUESTS.name
    held.append(series(name, every(20, slope=2.0), path="baseline", outcome="stop"))
    for spans in (((T0, T0 + 20), (T0 + 40, T0 + 60)), ((T0 + 40, T0 + 60), (T0, T0 + 20))):
        found = Telemetry(read_prometheus(api, spans))
        assert found.window((T0, T0 + 20)).rate(name) == pytest.approx(2.0, rel=0.1)
        assert found.window((T0 + 40, T0 + 60)).rate(name) is None


def test_a_gap_is_a_gap(held: list[dict[str, Any]], api: PrometheusApi) -> None:
    """Gone from 20 to 40 s and back with the same value: absent between."""
    values = dict.fromkeys([*range(20), *range(40, 61)], 3.0)
    held.append(series(server.RUNNING.name, values, pool="a"))
    window = read(api).window((T0 + 21, T0 + 39))
    assert window.mean(server.RUNNING.name) is None


def test_only_changes_are_rows(held: list[dict[str, Any]], api: PrometheusApi) -> None:
    """A gauge that never moves is one row; `up` is one a step."""
    held.append(series(server.RUNNING.name, every(60, 3.0), pool="a"))
    names = read_prometheus(api, [(T0, T0 + 60)])["name"].value_counts()
    assert isinstance(names, pd.Series)
    assert (names[server.RUNNING.name], names["up"]) == (1, 61)


def test_vllm_is_understood_by_rules_and_canonical_names(
    held: list[dict[str, Any]], api: PrometheusApi
) -> None:
    """Preemptions and a queue of a vLLM fire the rules that the bundled server's would."""
    held += [
        series("vllm:num_requests_running", every(60, 4.0), model_name="m"),
        series("vllm:num_requests_waiting", every(60, 30.0), model_name="m"),
        series("vllm:kv_cache_usage_perc", every(60, 0.99), model_name="m"),
        series("vllm:num_preemptions_total", every(60, 0.0, 0.5), model_name="m"),
        series("vllm:request_success_total", every(60, 0.0, 2.0), finished_reason="stop"),
    ]
    window = read(api).window()
    assert window.mean(canonical.KV_USAGE.name) == pytest.approx(0.99)
    assert window.rate(canonical.PREEMPTIONS.name) == pytest.approx(0.5)
    pressure = kv_pressure.check(Context(fault=window))
    assert pressure is not None
    assert pressure.evidence[0].value == pytest.approx(0.25)
    assert pressure.evidence[-1].value == pytest.approx(0.99)
    assert queueing.check(Context(fault=window)) is not None


def test_types_are_those_that_were_declared(held: list[dict[str, Any]], api: PrometheusApi) -> None:
    """TGI's counter ends in `_count` and is no histogram; what nobody declared goes by its name."""
    held += [
        series("tgi_request_count", every(60, 0.0, 2.0)),
        series("tgi_queue_size", every(60, 3.0)),
        series("tgi_request_duration_sum", every(60, 0.0, 1.0)),
        series(server.EVICTIONS.name, every(60, 5.0, 2.0), pool="a"),
    ]
    telemetry = read(api)
    assert {name: telemetry.kind(name) for name in telemetry.names if name[:4] != "llm:"} == {
        "up": "gauge",
        "tgi_request_count": "counter",
        "tgi_queue_size": "gauge",
        "tgi_request_duration_sum": "histogram",
        server.EVICTIONS.name: "counter",
    }


def test_two_jobs_at_one_address_are_two_sources(
    held: list[dict[str, Any]], api: PrometheusApi
) -> None:
    """Neither overwrites the other: their evictions add up."""
    held += [
        series(server.EVICTIONS.name, every(60, 5.0, 2.0)),
        series(server.EVICTIONS.name, every(60, 9.0, 1.0), job="other"),
    ]
    telemetry = read(api)
    assert telemetry.sources == ["llm/10.0.0.1:8000", "other/10.0.0.1:8000"]
    assert telemetry.window().rate(server.EVICTIONS.name) == pytest.approx(3)


def test_a_prometheus_that_knows_nothing_of_us_is_told(api: PrometheusApi) -> None:
    """Only `up` is no telemetry: an error with the times that were asked for."""
    with pytest.raises(SetupError, match="holds none of our metrics"):
        read(api)


def test_every_metric_of_the_catalogue_is_asked_for() -> None:
    """Plain names by themselves, a histogram's three series together."""
    asked = queries()
    assert server.RUNNING.name in asked
    assert f'{{__name__=~"{server.TTFT.name}_(bucket|sum|count)"}}' in asked
    assert len(asked) == len(set(asked))


def test_only_the_wanted_series_are_asked_for() -> None:
    """Every selector holds the labels, whose values are quoted."""
    asked = queries({"job": 'a"b'})
    assert f'{server.RUNNING.name}{{job="a\\"b"}}' in asked
    assert f'{{__name__=~"{server.TTFT.name}_(bucket|sum|count)",job="a\\"b"}}' in asked
    assert all('job="a\\"b"}' in each for each in asked)
    assert len(asked) == len(queries())
