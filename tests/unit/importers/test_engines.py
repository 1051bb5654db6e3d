"""Foreign servers' pages in canonical quantities: values, units and folds, name by name."""

import math

import pytest

from harness.importers.engines import ENGINES
from harness.importers.engines.canonical import Translated, detect_engine, translate
from harness.importers.metrics_text import read_metrics
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.metric import Metric


def of(text: str) -> Translated:
    page = read_metrics(text.encode())
    engine = detect_engine(page)
    assert engine is not None
    return translate(page, engine)


def value(translated: Translated, metric: Metric | str, **labels: str) -> float | None:
    name = metric if isinstance(metric, str) else metric.name
    return translated.values.get((name, tuple(sorted(labels.items()))))


VLLM = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="my model"} 3.0
vllm:num_requests_waiting{engine="0",model_name="my model"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="my model"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="my model"} 1000.0
vllm:generation_tokens_total{engine="0",model_name="my model"} 400.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="my model"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="my model"} 2.0
vllm:num_preemptions_total{engine="0",model_name="my model"} 1.0
vllm:prefix_cache_queries_total{engine="0",model_name="my model"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="my model"} 640.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="my model"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="my model"} 9.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="my model"} 0.9
vllm:time_to_first_token_seconds_count{engine="0",model_name="my model"} 9.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="my model"} 4.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="my model"} 9.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="my model"} 0.5
"""


def test_every_quantity_of_vllm() -> None:
    """Each name gives its number, under its canonical name."""
    told = of(VLLM)
    assert told.engine.name == "vllm"
    wanted = {
        canonical.RUNNING: 3, canonical.WAITING: 2, canonical.KV_USAGE: 0.25,
        canonical.PROMPT_TOKENS: 1000, canonical.OUTPUT_TOKENS: 400, canonical.PREEMPTIONS: 1,
        canonical.PREFIX_QUERIES: 1000, canonical.PREFIX_HITS: 640,
    }  # fmt: skip
    assert {metric: value(told, metric) for metric in wanted} == wanted
    assert value(told, canonical.REQUESTS, outcome="stop") == 7
    assert value(told, canonical.REQUESTS, outcome="length") == 2
    assert value(told, "llm:ttft_seconds_bucket", le="0.1") == 8
    assert value(told, "llm:ttft_seconds_bucket", le="+Inf") == 9
    assert value(told, "llm:ttft_seconds_sum") == 0.9
    assert value(told, "llm:itl_seconds_sum") == 4
    assert value(told, "llm:e2e_seconds_count") == 9
    assert value(told, "llm:queue_seconds_sum") == 0.5
    assert value(told, canonical.ENGINE, engine="vllm") == 1


def test_colons_underscores_and_the_suffix_do_not_matter() -> None:
    """A collector's form of the same page gives the same numbers."""
    page = VLLM.replace("vllm:", "vllm_").replace("_tokens_total", "_tokens")
    assert of(page).values == of(VLLM).values


@pytest.mark.parametrize(
    ("old", "new", "metric"),
    [
        ("gpu_cache_usage_perc", "kv_cache_usage_perc", "llm:kv_usage_ratio"),
        (
            "time_per_output_token_seconds_sum", "inter_token_latency_seconds_sum",
            "llm:itl_seconds_sum",
        ),
        ("gpu_prefix_cache_hits", "prefix_cache_hits_total", "llm:prefix_hit_tokens_total"),
    ],
)  # fmt: skip
def test_old_names_are_understood_and_never_added_to_new_ones(
    old: str, new: str, metric: str
) -> None:
    """A version that still has both under one name each is read once, from the new one."""
    assert value(of(f"vllm:{old} 5"), metric) == 5
    assert value(of(f"vllm:{old} 5\nvllm:{new} 7"), metric) == 7
    assert value(of(f"vllm:{new} 7\nvllm:{old} 5"), metric) == 7


def test_a_mean_per_request_is_not_the_gap_between_tokens() -> None:
    """TPOT and ITL have names of their own."""
    told = of("vllm:request_time_per_output_token_seconds_sum 3")
    assert value(told, "llm:tpot_seconds_sum") == 3
    assert value(told, "llm:itl_seconds_sum") is None


def test_a_gauge_that_each_process_tells_is_the_largest() -> None:
    """Eight series of which only the pid differs, seven of them zero."""
    lines = [f'vllm:num_requests_running{{pid="{i}"}} {6 if i == 3 else 0}' for i in range(8)]
    assert value(of("\n".join(lines)), canonical.RUNNING) == 6


def test_engines_of_one_server_add_up_and_shares_do_not() -> None:
    """Two data-parallel engines run 3 and 4; the fuller KV memory is the one to know of."""
    told = of(
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    assert value(told, canonical.RUNNING) == 7
    assert value(told, canonical.KV_USAGE) == 0.9


def test_no_value_yet_is_no_quantity() -> None:
    """NaN before the first request is absent; the other series still count."""
    assert value(of("vllm:kv_cache_usage_perc NaN\nvllm:x 1"), canonical.KV_USAGE) is None
    told = of('vllm:num_requests_running{pid="1"} NaN\nvllm:num_requests_running{pid="2"} 2')
    assert value(told, canonical.RUNNING) == 2


def test_sglang() -> None:
    """Its names, a label with a path, and the gauge that must not pass for a counter."""
    told = of(
        'sglang:num_running_reqs{name="/data/m",tp_rank="0"} 5\n'
        'sglang:num_running_reqs{name="/data/m",tp_rank="1"} 5\n'
        'sglang:num_queue_reqs{name="/data/m"} 4\nsglang:token_usage{name="/data/m"} 0.52\n'
        "sglang:cache_hit_rate 0.28\nsglang:cached_tokens_total 30\n"
        "sglang:prompt_tokens_total 100\nsglang:num_requests_total 9\n"
        "# TYPE sglang:num_retracted_reqs gauge\nsglang:num_retracted_reqs 3\n"
        "sglang:time_to_first_token_seconds_count 8\nsglang:num_aborted_requests_total 77\n"
    )
    assert told.engine.name == "sglang"
    assert value(told, canonical.RUNNING) == 5
    assert value(told, canonical.WAITING) == 4
    assert value(told, canonical.KV_USAGE) == 0.52
    assert value(told, canonical.PREFIX_RATIO) == 0.28
    assert value(told, canonical.PREFIX_HITS) == 30
    assert value(told, canonical.PREFIX_QUERIES) == 100
    assert value(told, canonical.REQUESTS, outcome="finished") == 9
    assert value(told, canonical.PREEMPTIONS) is None
    assert value(told, "llm:ttft_seconds_count") == 8
    counted = of("# TYPE sglang:num_retracted_reqs counter\nsglang:num_retracted_reqs_total 3")
    assert value(counted, canonical.PREEMPTIONS) == 3


def test_tgi() -> None:
    """Seconds without a suffix; token counts are the sums of histograms of lengths."""
    told = of(
        "tgi_queue_size 2\ntgi_batch_current_size 6\ntgi_request_duration_sum 12.5\n"
        'tgi_request_duration_bucket{le="1"} 3\ntgi_request_duration_count 4\n'
        "tgi_request_generated_tokens_sum 900\ntgi_request_generated_tokens_count 4\n"
        "tgi_request_input_length_sum 512\ntgi_request_success 4\n"
        'tgi_request_failure{err="overloaded"} 1\ntgi_request_failure{err="validation"} 2\n'
        "tgi_request_mean_time_per_token_duration_sum 0.5\ntgi_request_queue_duration_sum 0.3\n"
    )
    assert told.engine.name == "tgi"
    assert value(told, canonical.WAITING) == 2
    assert value(told, canonical.RUNNING) == 6
    assert value(told, "llm:e2e_seconds_sum") == 12.5
    assert value(told, "llm:e2e_seconds_bucket", le="1.0") == 3
    assert value(told, canonical.OUTPUT_TOKENS) == 900
    assert value(told, canonical.PROMPT_TOKENS) == 512
    assert value(told, canonical.REQUESTS, outcome="success") == 4
    assert value(told, canonical.REQUESTS, outcome="failure") == 3
    assert value(told, "llm:tpot_seconds_sum") == 0.5
    assert value(told, "llm:queue_seconds_sum") == 0.3


def test_llamacpp() -> None:
    """Counters only; what is called tokens_seconds is a rate and is not used."""
    told = of(
        "llamacpp:prompt_tokens_total 420\nllamacpp:tokens_predicted_total 1000\n"
        "llamacpp:prompt_tokens_seconds 512.5\nllamacpp:predicted_tokens_seconds -nan\n"
        "llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\n"
        "# TYPE llamacpp:n_busy_slots_per_decode counter\nllamacpp:n_busy_slots_per_decode 1.5\n"
    )
    assert told.engine.name == "llamacpp"
    assert told.engine.kinds["llamacpp_n_busy_slots_per_decode"] == "gauge"
    assert value(told, canonical.PROMPT_TOKENS) == 420
    assert value(told, canonical.OUTPUT_TOKENS) == 1000
    assert value(told, canonical.RUNNING) == 1
    assert value(told, canonical.WAITING) == 4
    assert value(told, canonical.KV_USAGE) is None


def test_tensorrt_llm() -> None:
    """Its own server's names, with an underscore or a colon."""
    told = of(
        "trtllm_kv_cache_utilization 0.62\ntrtllm:kv_cache_hit_rate 0.38\n"
        'trtllm_request_success_total{finished_reason="stop"} 10\n'
        'trtllm_time_to_first_token_seconds_bucket{le="0.001"} 2\n'
        "trtllm_time_per_output_token_seconds_sum 2\n"
    )
    assert told.engine.name == "tensorrt-llm"
    assert value(told, canonical.KV_USAGE) == 0.62
    assert value(told, canonical.PREFIX_RATIO) == 0.38
    assert value(told, canonical.REQUESTS, outcome="stop") == 10
    assert value(told, "llm:ttft_seconds_bucket", le="0.001") == 2
    assert value(told, "llm:tpot_seconds_sum") == 2


def test_triton() -> None:
    """Microseconds become seconds; the ensemble and its parts are one request and not three."""
    told = of(
        'nv_inference_request_success{model="ensemble",version="1"} 8\n'
        'nv_inference_request_success{model="tensorrt_llm",version="1"} 9\n'
        'nv_inference_request_failure{model="ensemble",version="1"} 1\n'
        'nv_inference_request_duration_us{model="ensemble",version="1"} 2500000\n'
        'nv_inference_queue_duration_us{model="ensemble",version="1"} 40000\n'
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3\n'
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 5\n'
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512\n'
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="t",version="1"} 30\n'
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="t",version="1"} 120\n'
    )
    assert told.engine.name == "triton"
    assert value(told, canonical.REQUESTS, outcome="success") == 9
    assert value(told, canonical.REQUESTS, outcome="failure") == 1
    assert value(told, "llm:e2e_seconds_sum") == pytest.approx(2.5)
    assert value(told, "llm:e2e_seconds_count") == 9
    assert value(told, "llm:queue_seconds_sum") == pytest.approx(0.04)
    assert value(told, canonical.WAITING) == 3
    assert value(told, canonical.RUNNING) == 5
    assert value(told, canonical.KV_USAGE) == 0.25


def test_the_bundled_server() -> None:
    """Held over capacity is the KV use; of the phases only the queue is the queue."""
    told = of(
        "mc_accel_running_sequences 3\nmc_accel_kv_held_tokens 512\n"
        "mc_accel_kv_capacity_tokens 2048\nmc_accel_evictions_total 2\n"
        'mc_accel_requests_total{path="baseline",outcome="ok"} 4\n'
        'mc_accel_requests_total{path="accelerated",outcome="ok"} 5\n'
        'mc_accel_phase_duration_seconds_sum{phase="queue",path="baseline"} 0.5\n'
        'mc_accel_phase_duration_seconds_sum{phase="ffn",path="baseline"} 9\n'
        "vllm:num_requests_running 3\n"
    )
    assert told.engine.name == "tailbreak"
    assert value(told, canonical.KV_USAGE) == 0.25
    assert value(told, canonical.REQUESTS, outcome="ok") == 9
    assert value(told, canonical.PREEMPTIONS) == 2
    assert value(told, "llm:queue_seconds_sum") == 0.5


def test_without_capacity_there_is_no_share() -> None:
    """A divisor that is missing or zero leaves the quantity absent."""
    for capacity in ("", "mc_accel_kv_capacity_tokens 0\n"):
        told = of(f"mc_accel_kv_held_tokens 512\n{capacity}")
        assert value(told, canonical.KV_USAGE) is None


def test_what_is_no_inference_server_is_not_taken_for_one() -> None:
    """A node exporter has no engine."""
    page = read_metrics(b"node_load1 0.5\nnode_cpu_seconds_total 3\n")
    assert detect_engine(page) is None


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_tables_are_whole(engine: object) -> None:
    """Names are in the plain form, required quantities have an alias, units need no factor of 0."""
    from harness.importers.engines import Engine
    from harness.importers.engines.canonical import plain_name

    assert isinstance(engine, Engine)
    for alias in engine.aliases:
        assert alias.metric in canonical.CANONICAL_METRICS
        assert all(plain_name(name) == name for name in alias.names)
        assert all(name.startswith(engine.prefixes) for name in alias.names)
        assert alias.factor > 0
        assert math.isfinite(alias.factor)
    assert set(engine.required) <= {alias.metric for alias in engine.aliases}
