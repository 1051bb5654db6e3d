"""TensorRT-LLM's own server (trtllm-serve)."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

TENSORRT: Final = Engine(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    prefixes=("trtllm_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=("trtllm_num_requests_running",)),
        Alias(metric=canonical.WAITING, names=("trtllm_num_requests_waiting",)),
        Alias(metric=canonical.KV_USAGE, names=("trtllm_kv_cache_utilization",)),
        Alias(metric=canonical.PREFIX_RATIO, names=("trtllm_kv_cache_hit_rate",)),
        Alias(
            metric=canonical.REQUESTS, names=("trtllm_request_success",), outcome="finished_reason"
        ),
        Alias(metric=canonical.TTFT, names=("trtllm_time_to_first_token_seconds",)),
        Alias(
            metric=canonical.TPOT,
            names=("trtllm_time_per_output_token_seconds",),
            note="a mean per request",
        ),
        Alias(metric=canonical.E2E, names=("trtllm_e2e_request_latency_seconds",)),
        Alias(metric=canonical.QUEUE, names=("trtllm_request_queue_time_seconds",)),
    ),
    required=(canonical.REQUESTS, canonical.TTFT, canonical.E2E),
)
