import asyncio

from prometheus_client.parser import text_string_to_metric_families

from harness.metrics.catalogue.metric import Metric
from harness.metrics.catalogue.server import SERVER_METRICS
from harness.metrics.phases import SERVER_PHASES
from harness.server.engine_link import EngineLink
from harness.server.faults import read_faults
from harness.server.metrics_endpoint import Histograms, ServerMetrics
from harness.server.options import ServerOptions
from harness.server.pool_options import PoolOptions
from harness.server.pools import Pool, Pools
from harness.server.timings import Timings, in_seconds

SMALL = Metric(name="x_seconds", type="histogram", help="x", labels=("path",), buckets=(0.1, 0.5))


def test_buckets_are_cumulative_and_hold_their_bound() -> None:
    """A value equal to a bound counts in that bucket; every later bucket counts it too."""
    histogram = Histograms(SMALL)
    for value in (0.1, 0.2, 0.5, 7.0):
        histogram.observe(value, "baseline")
    assert list(histogram.lines()) == [
        'x_seconds_bucket{path="baseline",le="0.1"} 1',
        'x_seconds_bucket{path="baseline",le="0.5"} 3',
        'x_seconds_bucket{path="baseline",le="+Inf"} 4',
        'x_seconds_count{path="baseline"} 4',
        'x_seconds_sum{path="baseline"} 7.8',
    ]


async def expose(metrics: ServerMetrics, state: dict[str, int]) -> bytes:
    """What is told of pools `a`, which is in this state, and `b`, which was and has died."""
    pools = Pools(lambda: None)
    links = [EngineLink(lambda _: None) for _ in "ab"]
    for name, link in zip("ab", links, strict=True):
        link.is_alive = True
        pools.add(Pool(ServerOptions(pool=(PoolOptions(name=name, device="cpu"),)), link))
        link.state = state
    links[1].is_alive = False
    return metrics.expose(pools, 4, 6)


def test_every_catalogued_series_is_exposed_with_its_type_and_help() -> None:
    """Prometheus' own parser reads each family as the catalogue describes it."""
    metrics = ServerMetrics(read_faults("ffn:10%,drop:1/50"))
    timings = Timings(
        phases=in_seconds({"ffn": 20_000_000}),
        ttft_phases={},
        wall_s=0.02,
        ttft_s=0.01,
        path="baseline",
        features=(),
        pool="a",
        n_output=5,
    )
    metrics.record_finished("baseline", "length", 7, timings)
    metrics.record_broken("accelerated", "cancelled")
    metrics.record_refused(429)
    state = {"running": 1, "waiting": 2, "kv_held": 64, "kv_kept": 32}
    state |= {"evictions": 3, "prefix_queries": 96, "prefix_hits": 48}
    text = asyncio.run(expose(metrics, state)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) == len(SERVER_METRICS)
    for metric in SERVER_METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.type, metric.help)
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values[("mc_accel_requests_total", "baseline", "length")] == 1
    assert values[("mc_accel_requests_total", "accelerated", "cancelled")] == 1
    assert values[("mc_accel_refused_total", "429")] == 1
    assert values[("mc_accel_journal_failures_total",)] == 4
    assert values[("mc_accel_journal_waits_total",)] == 6
    assert values[("mc_accel_running_sequences", "a")] == 1
    assert values[("mc_accel_waiting_sequences", "a")] == 2
    assert values[("mc_accel_kv_held_tokens", "a")] == 64
    assert values[("mc_accel_kv_kept_tokens", "a")] == 32
    assert values[("mc_accel_kv_capacity_tokens", "a")] == 2560
    assert not [key for key in values if key[1:] == ("b",) and "sequences" in key[0]]
    assert not [key for key in values if key[1:] == ("b",) and "kv" in key[0]]
    for pool in "ab":
        assert values[("mc_accel_evictions_total", pool)] == 3
        assert values[("mc_accel_prefix_query_tokens_total", pool)] == 96
        assert values[("mc_accel_prefix_hit_tokens_total", pool)] == 48
    assert values[("mc_accel_output_tokens_total", "baseline")] == 5
    assert values[("mc_accel_phase_duration_seconds_sum", "ffn", "baseline")] == 0.02
    assert [values[("mc_accel_pool_up", name)] for name in "ab"] == [1, 0]
    assert [values[("mc_accel_restarts_total", name)] for name in "ab"] == [0, 0]
    assert values[("mc_accel_fault_info", "ffn:10%")] == 1
    assert values[("mc_accel_fault_info", "drop:1/50")] == 1
    phases = {key[1] for key in values if key[0] == "mc_accel_phase_duration_seconds_count"}
    assert phases == set(SERVER_PHASES)
