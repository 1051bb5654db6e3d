"""`/metrics` of a server that is played: every series by value, in both formats."""

import asyncio
import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from harness.metrics.catalogue import server as catalogue
from harness.metrics.catalogue.genai import GENAI_METRICS
from harness.metrics.catalogue.metric import Metric
from harness.metrics.catalogue.server import SERVER_METRICS
from harness.metrics.catalogue.vllm import VLLM_METRICS
from harness.metrics.phases import SERVER_PHASES
from harness.server.engine_link import EngineLink
from harness.server.engine_series import EngineSeries
from harness.server.frames import encode_frame
from harness.server.job import Job
from harness.server.journal import Journal
from harness.server.journal_queue import JournalQueue
from harness.server.machine import Energy, private_bytes
from harness.server.metrics_endpoint import Served, ServerMetrics, wants_open
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses
from harness.server.pool_options import PoolOptions
from harness.server.pools import Placement, Pool, Pools
from harness.server.series import Exemplar, Histograms, Values, render
from harness.server.timings import Timings, in_seconds

SMALL = Metric(name="x_seconds", type="histogram", help="x", labels=("path",), buckets=(0.1, 0.5))
STATE = {"running": 1, "waiting": 2, "kv_held": 64, "kv_kept": 32}
STATE |= {"evictions": 3, "prefix_queries": 96, "prefix_hits": 48}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NAME = 'odd "name"\\'
Samples = dict[tuple[str, ...], float]
parse_open: Any = open_parser.text_string_to_metric_families


def test_buckets_are_cumulative_and_hold_their_bound() -> None:
    """A value equal to a bound counts in that bucket; every later bucket counts it too."""
    histogram = Histograms(SMALL)
    for value in (0.1, 0.2, 0.5, 7.0):
        histogram.observe(value, "baseline")
    assert list(histogram.lines(is_open=False)) == [
        'x_seconds_bucket{path="baseline",le="0.1"} 1',
        'x_seconds_bucket{path="baseline",le="0.5"} 3',
        'x_seconds_bucket{path="baseline",le="+Inf"} 4',
        'x_seconds_count{path="baseline"} 4',
        'x_seconds_sum{path="baseline"} 7.8',
    ]


def test_the_latest_exemplar_of_a_bucket_is_told_in_openmetrics_only() -> None:
    """It stands behind its own bucket's line; the text format knows no exemplars."""
    histogram = Histograms(SMALL)
    series = histogram.of("baseline")
    for value, trace in ((0.2, "a" * 32), (0.3, TRACE)):
        series.trace(series.observe(value), Exemplar(trace, value, 12.5))
    lines = list(histogram.lines(is_open=True))
    assert lines[0] == 'x_seconds_bucket{path="baseline",le="0.1"} 0'
    expected = f'x_seconds_bucket{{path="baseline",le="0.5"}} 2 # {{trace_id="{TRACE}"}} 0.3 12.500'
    assert lines[1] == expected
    assert not [line for line in histogram.lines(is_open=False) if "#" in line]


def test_labels_and_help_are_escaped() -> None:
    """Quotes, backslashes and line ends of a label come back through both parsers."""
    odd = 'a"b\\c\nd'
    metric = Metric(name="x_total", type="counter", help="one \\ two\nthree", labels=("word",))
    values = Values(metric)
    values.set(3, odd)
    for is_open, parse in ((False, parse_text), (True, parse_open)):
        (family,) = parse(render([values], is_open=is_open).decode())
        assert family.documentation == metric.help
        assert [(each.labels, each.value) for each in family.samples] == [({"word": odd}, 3)]


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
    ],
)
def test_who_takes_openmetrics_gets_it(accept: str, *, is_open: bool) -> None:
    """Prometheus' own Accept header asks for it; a browser or curl gets plain text."""
    assert wants_open(accept) == is_open


def timings() -> Timings:
    """Of a request of five tokens: 10 ms to the first, 20 ms in all, 4 ms of them waiting."""
    return Timings(
        phases=in_seconds({"ffn": 16_000_000, "queue": 1_000_000, "kv_wait": 3_000_000}),
        ttft_phases={},
        wall_s=0.02,
        ttft_s=0.01,
        path="baseline",
        features=(),
        pool="a",
        n_output=5,
    )


async def expose(*, is_open: bool, genai: bool = False) -> str:
    """What a server tells that is told here all it can be told.

    Pool `a` serves; pool `b` has told the same and has died.
    """
    options = ServerOptions.model_validate(
        {"faults": "ffn:10%,drop:1/50", "model": f"/m/{NAME}", "genai_metrics": genai}
    )
    metrics = ServerMetrics(options)
    pools = Pools(lambda: None)
    links = {name: EngineLink(name, metrics.engines, lambda _: None) for name in "ab"}
    for name, link in links.items():
        link.is_alive, link.state = True, STATE
        own = ServerOptions(pool=(PoolOptions(name=name, device="cpu"),))
        pools.add(Pool(own, link, os.getpid()))
    links["b"].is_alive = False
    metrics.record_finished(Served("baseline", "chat", "length", 7, TRACE), timings(), 1e9)
    metrics.record_broken(Served("accelerated", "chat", "cancelled", 3), 0.5)
    for status in (429, 500, 503):
        metrics.record_refused(status)
    metrics.loop_lag.observe(0.003)
    pauses = {"n_allocated": 900, "pauses": [(0, 2_000_000), (2, 30_000_000)]}
    metrics.engines.note_step("a", {"n_batch": 3, "gc": pauses})
    metrics.engines.note_step("a", {"n_batch": 0})
    gaps = {("baseline", 10): 2, ("baseline", 0): 5, ("accelerated", 2_000_010): 1}
    metrics.engines.note_gaps(gaps, 4_000_010)
    journal = Journal()
    queue = JournalQueue(journal)
    journal.n_failed, queue.n_waits, queue._n_queued, queue._n_begun = 4, 6, 9, 2
    await journal.connections.take()
    own_pauses = GcPauses()
    own_pauses.n_allocated = 55
    text = metrics.expose(pools, queue, own_pauses, is_open=is_open).decode()
    queue.close()
    journal.close()
    return text


def samples(families: list[Any]) -> Samples:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("is_open", [False, True])
def test_every_catalogued_series_has_its_type_help_and_value(*, is_open: bool) -> None:
    """Prometheus' own parsers read each family as the catalogue describes it, in both formats."""
    text = asyncio.run(expose(is_open=is_open))
    assert ("# UNIT mc_accel_ttft_seconds seconds\n" in text) == is_open
    parsed = list((parse_open if is_open else parse_text)(text))
    families = {family.name: family for family in parsed}
    wanted = (*SERVER_METRICS, *(() if is_open else VLLM_METRICS))
    assert set(families) == {metric.name.removesuffix("_total") for metric in wanted}
    for metric in wanted:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.type, metric.help)
    values = samples(parsed)
    expected: Samples = {
        ("mc_accel_requests_total", "baseline", "length"): 1,
        ("mc_accel_requests_total", "accelerated", "cancelled"): 1,
        ("mc_accel_refused_total", "429"): 1,
        ("mc_accel_refused_total", "503"): 1,
        ("mc_accel_5xx_total",): 2,
        ("mc_accel_journal_failures_total",): 4,
        ("mc_accel_journal_waits_total",): 6,
        ("mc_accel_store_connections_in_use",): 1,
        ("mc_accel_store_connections_limit",): 32,
        ("mc_accel_store_waiting_rows",): 7,
        ("mc_accel_prompt_tokens_total", "baseline"): 7,
        ("mc_accel_output_tokens_total", "baseline"): 5,
        ("mc_accel_phase_duration_seconds_sum", "ffn", "baseline"): 0.016,
        ("mc_accel_infer_duration_seconds_sum", "baseline"): 0.02,
        ("mc_accel_infer_duration_seconds_bucket", "baseline", "0.0196"): 0,
        ("mc_accel_infer_duration_seconds_bucket", "baseline", "0.0215"): 1,
        ("mc_accel_ttft_seconds_sum", "baseline"): 0.01,
        ("mc_accel_ttft_seconds_count", "baseline"): 1,
        ("mc_accel_itl_seconds_sum", "baseline"): 0.008,
        ("mc_accel_itl_seconds_count", "baseline"): 2,
        ("mc_accel_batch_sequences_sum", "a"): 3,
        ("mc_accel_batch_sequences_count", "a"): 1,
        ("mc_accel_batch_sequences_bucket", "a", "2.0"): 0,
        ("mc_accel_batch_sequences_bucket", "a", "4.0"): 1,
        ("mc_accel_gc_pause_seconds_sum", "a", "0"): 0.002,
        ("mc_accel_gc_pause_seconds_sum", "a", "2"): 0.03,
        ("mc_accel_gc_allocated_objects_total", "a"): 900,
        ("mc_accel_gc_allocated_objects_total", "front"): 55,
        ("mc_accel_event_loop_lag_seconds_sum",): 0.003,
        ("mc_accel_running_sequences", "a"): 1,
        ("mc_accel_waiting_sequences", "a"): 2,
        ("mc_accel_kv_held_tokens", "a"): 64,
        ("mc_accel_kv_kept_tokens", "a"): 32,
        ("mc_accel_kv_capacity_tokens", "a"): 2560,
        ("mc_accel_pool_up", "a"): 1,
        ("mc_accel_pool_up", "b"): 0,
        ("mc_accel_restarts_total", "a"): 0,
        ("mc_accel_restarts_total", "b"): 0,
        ("mc_accel_fault_info", "ffn:10%"): 1,
        ("mc_accel_fault_info", "drop:1/50"): 1,
    }
    for pool in "ab":  # counts outlive their pool
        expected[("mc_accel_evictions_total", pool)] = 3
        expected[("mc_accel_prefix_query_tokens_total", pool)] = 96
        expected[("mc_accel_prefix_hit_tokens_total", pool)] = 48
    assert {key: values.get(key) for key in expected} == expected
    assert values[("mc_accel_heap_bytes", "front")] > 1e6
    # What a dead process holds cannot be read: it has no series.
    assert {key[0] for key in values if key[1:] == ("b",)} == {
        *("mc_accel_pool_up", "mc_accel_restarts_total", "mc_accel_evictions_total"),
        *("mc_accel_prefix_query_tokens_total", "mc_accel_prefix_hit_tokens_total"),
    }
    phases = {key[1] for key in values if key[0] == "mc_accel_phase_duration_seconds_count"}
    assert phases == set(SERVER_PHASES)


def test_vllm_s_names_add_pools_and_paths_up() -> None:
    """What stands under vLLM's names is what ours add up to, with the model as label."""
    values = samples(list(parse_text(asyncio.run(expose(is_open=False)))))
    expected: Samples = {
        ("vllm:num_requests_running", NAME): 1,
        ("vllm:num_requests_waiting", NAME): 2,
        ("vllm:kv_cache_usage_perc", NAME): 64 / 2560,
        ("vllm:prompt_tokens_total", NAME): 7,
        ("vllm:generation_tokens_total", NAME): 5,
        ("vllm:request_success_total", NAME, "length"): 1,
        ("vllm:request_success_total", NAME, "stop"): 0,
        ("vllm:request_success_total", NAME, "abort"): 1,
        ("vllm:prefix_cache_queries_total", NAME): 192,
        ("vllm:prefix_cache_hits_total", NAME): 96,
        ("vllm:num_preemptions_total", NAME): 6,
        ("vllm:time_to_first_token_seconds_sum", NAME): 0.01,
        ("vllm:inter_token_latency_seconds_sum", NAME): 0.01,
        ("vllm:inter_token_latency_seconds_count", NAME): 3,
        ("vllm:e2e_request_latency_seconds_sum", NAME): 0.02,
        ("vllm:request_queue_time_seconds_sum", NAME): 0.004,
        ("vllm:request_queue_time_seconds_count", NAME): 1,
    }
    assert {key: values.get(key) for key in expected} == expected
    assert {key[0] for key in expected} <= {
        name
        for metric in VLLM_METRICS
        for name in (metric.name, f"{metric.name}_sum", f"{metric.name}_count")
    }


@pytest.mark.parametrize("is_open", [False, True])
def test_opentelemetry_s_names_are_an_opt_in(*, is_open: bool) -> None:
    """Duration, first token and time per later token, by operation; a failure names its kind."""
    parse = parse_open if is_open else parse_text
    families = list(parse(asyncio.run(expose(is_open=is_open, genai=True))))
    assert {metric.name for metric in GENAI_METRICS} <= {family.name for family in families}
    values = samples(families)
    chat = "chat", "tailbreak", NAME
    expected: Samples = {
        ("gen_ai_server_request_duration_seconds_sum", *chat): 0.02,
        ("gen_ai_server_request_duration_seconds_sum", *chat, "cancelled"): 0.5,
        ("gen_ai_server_time_to_first_token_seconds_sum", *chat): 0.01,
        ("gen_ai_server_time_per_output_token_seconds_sum", *chat): 0.0025,
    }
    assert {key: values.get(key) for key in expected} == expected


def test_exemplars_carry_the_caller_s_trace() -> None:
    """First token and whole inference point to the request that fell into the bucket."""
    found = {
        sample.name: sample.exemplar
        for family in parse_open(asyncio.run(expose(is_open=True)))
        for sample in family.samples
        if sample.exemplar
    }
    assert {
        name: (each.labels, each.value, float(each.timestamp)) for name, each in found.items()
    } == {
        "mc_accel_infer_duration_seconds_bucket": ({"trace_id": TRACE}, 0.02, 1e9),
        "mc_accel_ttft_seconds_bucket": ({"trace_id": TRACE}, 0.01, 1e9),
    }


def test_equal_gaps_of_a_step_are_counted_each() -> None:
    """Gaps are by path and in seconds; a sequence's first token has none."""
    series = EngineSeries()
    series.note_gaps({("baseline", 5): 3, ("accelerated", 5): 1, ("baseline", 0): 7}, 2_000_005)
    assert series.itl.of("baseline").counts[catalogue.ITL.buckets.index(0.00196)] == 0
    assert sum(series.itl.of("baseline").counts) == 3
    assert series.itl.of("baseline").total == pytest.approx(0.006)
    assert sum(series.itl.of("accelerated").counts) == 1


def test_a_link_counts_the_gaps_of_every_new_token() -> None:
    """Per sequence, from the token before; who began later, or ran before, is not mixed up."""
    series = EngineSeries()

    async def scene() -> None:
        link = EngineLink("a", series, lambda _: None)
        desk = Pool(ServerOptions(), link, 0)
        jobs = [
            Job(
                placement=Placement(pool=desk, n_slots=16),
                path=path,
                command={"tokens": [1], "sent_ns": 0},
                n_output=8,
                has_items=asyncio.Event(),
            )
            for path in ("baseline", "baseline", "accelerated")
        ]
        for job in jobs:
            link.take(job)
        # Milliseconds, and who got a token then.
        for at_ms, numbers in ((100, [1, 2]), (103, [1, 2]), (110, [1, 3]), (112, [1, 2, 3])):
            frame = {
                "until_ns": at_ms * 1_000_000,
                "n_batch": len(numbers),
                "tokens": [(number, 7, "content", None, None) for number in numbers],
                "ends": [],
                "state": STATE,
            }
            link.data_received(encode_frame(frame))

    asyncio.run(scene())
    assert sum(series.itl.of("baseline").counts) == 5
    assert series.itl.of("baseline").total == pytest.approx(0.003 + 0.003 + 0.007 + 0.002 + 0.009)
    assert sum(series.itl.of("accelerated").counts) == 1
    assert series.itl.of("accelerated").total == pytest.approx(0.002)
    assert series.batch.of("a").total == 9


def test_searches_are_heard_with_their_generation_and_what_was_allocated() -> None:
    """One search of each generation: three pauses, and at least the objects that were made."""
    heard: list[tuple[int, int]] = []
    gc.collect()
    pauses = GcPauses(lambda *pause: heard.append(pause)).install()
    try:
        gc.disable()
        kept = [[index] for index in range(5000)]
        before = time.perf_counter_ns()
        for generation in (0, 1, 2):
            gc.collect(generation)
        spent_ns = time.perf_counter_ns() - before
    finally:
        gc.enable()
        pauses.remove()
    assert [generation for generation, _ in heard] == [0, 1, 2]
    assert sum(duration_ns for _, duration_ns in heard) == pauses.total_ns <= spent_ns
    assert len(kept) <= pauses.n_allocated <= len(kept) + 500


def test_memory_of_a_process_is_read_where_there_is_one() -> None:
    """Ours is more than a megabyte; a process that is gone has none, which is not 0."""
    own = private_bytes(os.getpid())
    assert own is not None
    assert own > 1 << 20
    assert private_bytes(2**22 + 1) is None


def write_zone(folder: Path, name: str, microjoules: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text("1000000\n")


def test_energy_counts_from_the_start_and_over_the_end_of_its_range(tmp_path: Path) -> None:
    """Microjoules become joules; a counter that began anew goes on; no zone, no series."""
    assert Energy(tmp_path).joules() == {}
    package, memory = tmp_path / "intel-rapl:0", tmp_path / "intel-rapl:0:1"
    write_zone(package, "package-0", 900_000)
    write_zone(memory, "dram", 10)
    (tmp_path / "intel-rapl:1").mkdir()  # without a counter that may be read
    energy = Energy(tmp_path)
    assert energy.joules() == {"package-0": 0.0, "package-0/dram": 0.0}
    write_zone(package, "package-0", 950_000)
    write_zone(memory, "dram", 500_010)
    assert energy.joules() == pytest.approx({"package-0": 0.05, "package-0/dram": 0.5})
    write_zone(package, "package-0", 150_000)
    assert energy.joules()["package-0"] == pytest.approx(0.25)
