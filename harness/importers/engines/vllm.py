"""vLLM, old names and new."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

VLLM: Final = Engine(
    name="vllm",
    title="vLLM",
    prefixes=("vllm_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=("vllm_num_requests_running",)),
        Alias(metric=canonical.WAITING, names=("vllm_num_requests_waiting",)),
        Alias(
            metric=canonical.KV_USAGE,
            names=("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"),
            note="a ratio despite its name; gpu_cache_usage_perc before 0.11",
        ),
        Alias(metric=canonical.PROMPT_TOKENS, names=("vllm_prompt_tokens",)),
        Alias(metric=canonical.OUTPUT_TOKENS, names=("vllm_generation_tokens",)),
        Alias(
            metric=canonical.REQUESTS, names=("vllm_request_success",), outcome="finished_reason"
        ),
        Alias(metric=canonical.PREEMPTIONS, names=("vllm_num_preemptions",)),
        Alias(
            metric=canonical.PREFIX_QUERIES,
            names=("vllm_prefix_cache_queries", "vllm_gpu_prefix_cache_queries"),
        ),
        Alias(
            metric=canonical.PREFIX_HITS,
            names=("vllm_prefix_cache_hits", "vllm_gpu_prefix_cache_hits"),
        ),
        Alias(
            metric=canonical.PREFIX_RATIO,
            names=("vllm_gpu_prefix_cache_hit_rate",),
            note="V0 only; V1 counts queries and hits",
        ),
        Alias(metric=canonical.TTFT, names=("vllm_time_to_first_token_seconds",)),
        Alias(
            metric=canonical.ITL,
            names=("vllm_inter_token_latency_seconds", "vllm_time_per_output_token_seconds"),
            note="time_per_output_token_seconds before 0.11; its bounds begin at 10 ms",
        ),
        Alias(
            metric=canonical.TPOT, names=("vllm_request_time_per_output_token_seconds",)
        ),
        Alias(metric=canonical.E2E, names=("vllm_e2e_request_latency_seconds",)),
        Alias(metric=canonical.QUEUE, names=("vllm_request_queue_time_seconds",)),
    ),
    required=(
        canonical.RUNNING, canonical.WAITING, canonical.KV_USAGE, canonical.PROMPT_TOKENS,
        canonical.OUTPUT_TOKENS, canonical.REQUESTS, canonical.TTFT, canonical.E2E,
    ),
)  # fmt: skip
