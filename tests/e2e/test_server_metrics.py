"""The server's metrics as a real Prometheus stores them, and the way of a trace id."""

import contextlib
import os
import re
import signal
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.base.clock import SystemClock
from harness.metrics.catalogue.server import INFER_DURATION, ITL, SERVER_METRICS, TTFT
from harness.metrics.catalogue.vllm import VLLM_METRICS
from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from tests.e2e.plain_client import Client, ask, engines_of, eventually
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus, promtool

pytestmark = [pytest.mark.e2e, needs_prometheus]

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
POOLS = ("a=cpu,seqs=2,threads=1", "b=cpu,seqs=2,threads=1")
BASELINE = 'path="baseline"'


class Scene(NamedTuple):
    """A server of two pools that has answered three baseline requests, two on both pools."""

    server: RunningServer
    client: Client
    prometheus: Prometheus
    timings: list[dict[str, Any]]
    """Of the baseline's answers, as the client got them."""
    journal: Path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("metrics")
    journal = folder / "journal"
    options = ServerOptions.model_validate(
        {"port": 0, "pool": POOLS, "journal": journal, "genai_metrics": True}
    )
    with start_server(options) as server:
        client = Client(server.url)
        address = server.url.removeprefix("http://")
        targets = {"open": address, "text": f"{address}/metrics?format=text"}
        timings = [
            client.post("/v1/completions", ask(max_tokens=7), traceparent=PARENT).json["timings"]
            for _ in range(3)
        ]
        for _ in range(2):
            client.post("/v1/completions", ask(max_tokens=5), accel="prefix_cache,paged_kv")
        client.post("/v1/completions", ask(temperature=9))
        with prometheus(folder / "prometheus", targets) as running:
            for job in targets:
                running.wait_for(f'up{{job="{job}"}} == 1')
            yield Scene(server, client, running, timings, journal)


def at(scene: Scene, name: str, labels: str = "", job: str = "open") -> float:
    """The one value that Prometheus stores."""
    pairs = ",".join(filter(None, [labels, f'job="{job}"']))
    return scene.prometheus.value(f"{name}{{{pairs}}}")


@pytest.mark.parametrize("job", ["open", "text"])
def test_known_requests_make_exact_counts(scene: Scene, job: str) -> None:
    """Requests, tokens, gaps, batches and refusals, in both formats that Prometheus scrapes."""
    n_prompt = scene.client.post("/tokenize", {"prompt": ask()["prompt"]}).json["count"]
    accelerated = 'path="accelerated"'
    expected = {
        ("mc_accel_requests_total", f'{BASELINE},outcome="length"'): 3,
        ("mc_accel_requests_total", f'{accelerated},outcome="length"'): 2,
        ("mc_accel_prompt_tokens_total", BASELINE): 3 * n_prompt,
        ("mc_accel_output_tokens_total", BASELINE): 21,
        ("mc_accel_output_tokens_total", accelerated): 10,
        ("mc_accel_refused_total", 'status="400"'): 1,
        ("mc_accel_5xx_total", ""): 0,
        ("mc_accel_itl_seconds_count", BASELINE): 3 * 6,
        ("mc_accel_itl_seconds_count", accelerated): 2 * 4,
        ("mc_accel_ttft_seconds_count", BASELINE): 3,
        # One after the other, each prompt in one step: a step is one sequence's next token.
        ("mc_accel_batch_sequences_count", 'pool="a"'): 31,
        ("mc_accel_batch_sequences_sum", 'pool="a"'): 31,
        ("mc_accel_batch_sequences_bucket", 'pool="a",le="1.0"'): 31,
        ("mc_accel_prefix_query_tokens_total", 'pool="a"'): 2 * n_prompt,
        ("mc_accel_prefix_hit_tokens_total", 'pool="a"'): (n_prompt - 1) // 16 * 16,
        ("mc_accel_prefix_query_tokens_total", 'pool="b"'): 0,
        ("mc_accel_pool_up", 'pool="a"'): 1,
        ("mc_accel_pool_up", 'pool="b"'): 1,
        ("mc_accel_running_sequences", 'pool="b"'): 0,
        ("mc_accel_kv_capacity_tokens", 'pool="b"'): 2560,
        ("mc_accel_store_connections_in_use", ""): 0,
        ("mc_accel_store_connections_limit", ""): 32,
        ("mc_accel_store_waiting_rows", ""): 0,
    }
    found = {(name, labels): at(scene, name, labels, job) for name, labels in expected}
    assert found == expected


@pytest.mark.parametrize(
    ("metric", "key"), [(INFER_DURATION, "wall_s"), (TTFT, "ttft_s")], ids=["wall", "ttft"]
)
def test_every_bucket_counts_what_clients_were_told(scene: Scene, metric: Any, key: str) -> None:
    """Sum, count and each bucket of the histogram follow from the answers' own timings."""
    told = sorted(each[key] for each in scene.timings)
    assert at(scene, f"{metric.name}_sum", BASELINE) == pytest.approx(sum(told), rel=1e-9)
    assert at(scene, f"{metric.name}_count", BASELINE) == 3
    series = scene.prometheus.query(f'{metric.name}_bucket{{{BASELINE},job="open"}}')
    found = {each["metric"]["le"]: float(each["value"][1]) for each in series}
    expected = {repr(float(bound)): bisect_right(told, bound) for bound in metric.buckets}
    assert found == {**expected, "+Inf": 3}


def test_phases_add_up_in_prometheus(scene: Scene) -> None:
    """The phases' sums are those of the answers."""
    for phase in ("ffn", "store", "queue"):
        told = sum(each["phases"][phase] for each in scene.timings)
        labels = f'{BASELINE},phase="{phase}"'
        found = at(scene, "mc_accel_phase_duration_seconds_sum", labels)
        assert found == pytest.approx(told, rel=1e-9)


def test_gaps_fit_between_first_and_last_token(scene: Scene) -> None:
    """The sum of all gaps is most of the time after the first token, and less than all time."""
    gaps_s = at(scene, f"{ITL.name}_sum", BASELINE)
    after_first_s = sum(each["wall_s"] - each["ttft_s"] for each in scene.timings)
    assert 0.5 * after_first_s < gaps_s < sum(each["wall_s"] for each in scene.timings)


def test_processes_tell_of_memory_and_garbage(scene: Scene) -> None:
    """Front and both pools have memory; the front has searched, and its loop has slept."""
    series = scene.prometheus.query('mc_accel_heap_bytes{job="open"}')
    held = {each["metric"]["process"]: float(each["value"][1]) for each in series}
    assert set(held) == {"front", "a", "b"}
    assert min(held.values()) > 5e6
    lag = scene.prometheus.wait_for('mc_accel_event_loop_lag_seconds_count{job="open"} > 2')
    assert len(lag) == 1


def test_vllm_s_names_are_in_the_text_format_only(scene: Scene) -> None:
    """`?format=text` has them, with our values; what Prometheus asks for by itself does not."""
    model = 'model_name="tiny"'
    assert at(scene, "vllm:generation_tokens_total", model, "text") == 31
    assert at(scene, "vllm:inter_token_latency_seconds_count", model, "text") == 26
    finished = f'{model},finished_reason="length"'
    assert at(scene, "vllm:request_success_total", finished, "text") == 5
    assert scene.prometheus.query('{__name__=~"vllm.*",job="open"}') == []


def test_opentelemetry_s_names_follow_the_option(scene: Scene) -> None:
    """Requests by operation, with the provider and the model."""
    labels = 'gen_ai_operation_name="text_completion",gen_ai_request_model="tiny"'
    found = at(scene, "gen_ai_server_request_duration_seconds_count", labels)
    assert found == 5
    told = sum((each["wall_s"] - each["ttft_s"]) / 6 for each in scene.timings)
    total = at(scene, "gen_ai_server_time_per_output_token_seconds_sum", labels)
    assert total > told


def test_an_exemplar_leads_from_prometheus_to_the_journal(scene: Scene) -> None:
    """Its trace id is the caller's, which the rows of the three traced requests carry."""
    now = SystemClock().realtime_ns() / 1e9
    found = scene.prometheus.get(
        "query_exemplars",
        query=f'{TTFT.name}_bucket{{{BASELINE},job="open"}}',
        start=repr(now - 600),
        end=repr(now),
    )
    exemplars = [each for series in found for each in series["exemplars"]]
    assert {each["labels"]["trace_id"] for each in exemplars} == {TRACE}
    told = [each["ttft_s"] for each in scene.timings]
    assert all(float(each["value"]) in told for each in exemplars)
    with contextlib.closing(sqlite3.connect(scene.journal)) as journal:
        rows = journal.execute("SELECT path, trace_id FROM requests ORDER BY rowid").fetchall()
    assert rows == [("baseline", TRACE)] * 3 + [("accelerated", None)] * 2


@pytest.mark.parametrize("is_open", [False, True])
def test_promtool_finds_nothing_but_vllm_s_colons(scene: Scene, *, is_open: bool) -> None:
    """Both formats pass its lint; it reads no exemplars, so these are taken off first."""
    text = scene.client.send(
        "GET", "/metrics", headers=OPENMETRICS if is_open else {}
    ).body.decode()
    assert text.endswith("# EOF\n") == is_open
    plain = re.sub(r" # \{.*", "", text) if is_open else text
    checked = promtool("check", "metrics", text=plain)
    problems = {*checked.stderr.splitlines(), *checked.stdout.splitlines()}
    if is_open:  # it looks for a counter's description under `_total`, where OpenMetrics has none
        counters = [each.name for each in SERVER_METRICS if each.type == "counter"]
        assert problems <= {f"{name} no help text" for name in counters}
    else:
        names = [metric.name for metric in VLLM_METRICS]
        assert problems == {f"{name} metric names should not contain ':'" for name in names}


def test_the_answer_names_the_trace(scene: Scene) -> None:
    """Answered, streamed or refused: the same trace and a span; a broken one is as if absent."""
    for body, status in ((ask(), 200), (ask(stream=True), 200), (ask(temperature=9), 400)):
        reply = scene.client.post("/v1/completions", body, traceparent=PARENT)
        assert reply.status == status
        assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-01", reply.headers["traceresponse"])
        for broken in (PARENT[:-1], PARENT.upper(), "x" * 5000):
            reply = scene.client.post("/v1/completions", body, traceparent=broken)
            assert reply.status == status
            assert "traceresponse" not in reply.headers


def test_the_log_names_the_trace_at_debug_only(scene: Scene) -> None:
    """Beside the request's id and its outcome, and never what was asked."""
    options = ServerOptions(port=0, log_level="debug")
    with start_server(options) as server:
        client = Client(server.url)
        reply = client.post("/v1/completions", ask(), traceparent=PARENT)
        _, _, request_id = reply.json["id"].partition("-")
        line = f"{request_id} of trace {TRACE}: length in "
        eventually(lambda: line in server.last_errors(), 20)
        assert "the river" not in server.last_errors()
    assert TRACE not in scene.server.last_errors()


def test_an_unknown_format_is_refused_with_what_is_allowed(scene: Scene) -> None:
    """`format=json` is a 400 that says what to write."""
    reply = scene.client.get("/metrics?format=json")
    assert reply.status == 400
    assert 'got "json", allowed text' in reply.json["error"]["message"]


def test_a_dead_engine_is_told_and_the_rest_goes_on(scene: Scene) -> None:
    """`pool_up` is 0, its gauges end and its counters stay; the other pool answers and is told."""
    lost, _ = engines_of(scene.server.pid)
    os.kill(lost, signal.SIGKILL)
    scene.prometheus.wait_for('mc_accel_pool_up{pool="a",job="open"} == 0')
    assert at(scene, "mc_accel_pool_up", 'pool="b"') == 1
    for name in ("mc_accel_running_sequences", "mc_accel_kv_capacity_tokens"):
        assert scene.prometheus.query(f'{name}{{pool="a",job="open"}}') == []
    assert scene.prometheus.query('mc_accel_heap_bytes{process="a",job="open"}') == []
    assert at(scene, "mc_accel_prefix_query_tokens_total", 'pool="a"') > 0
    before = at(scene, "mc_accel_batch_sequences_sum", 'pool="b"') if has_run_on_b(scene) else 0
    reply = scene.client.post("/v1/completions", ask(max_tokens=4), accel="device_pool")
    assert reply.json["timings"]["pool"] == "b"
    query = f'mc_accel_batch_sequences_sum{{pool="b",job="open"}} == {before + 4}'
    scene.prometheus.wait_for(query)
    assert scene.prometheus.query('up{job="open"} == 1')


def has_run_on_b(scene: Scene) -> bool:
    return bool(scene.prometheus.query('mc_accel_batch_sequences_sum{pool="b",job="open"}'))
