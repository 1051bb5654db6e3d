"""SGLang (started with --enable-metrics)."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

SGLANG: Final = Engine(
    name="sglang",
    title="SGLang",
    prefixes=("sglang_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=("sglang_num_running_reqs",)),
        Alias(metric=canonical.WAITING, names=("sglang_num_queue_reqs",)),
        Alias(metric=canonical.KV_USAGE, names=("sglang_token_usage",)),
        Alias(metric=canonical.PREFIX_RATIO, names=("sglang_cache_hit_rate",)),
        Alias(metric=canonical.PROMPT_TOKENS, names=("sglang_prompt_tokens",)),
        Alias(metric=canonical.OUTPUT_TOKENS, names=("sglang_generation_tokens",)),
        Alias(metric=canonical.PREFIX_HITS, names=("sglang_cached_tokens",)),
        Alias(
            metric=canonical.PREFIX_QUERIES,
            names=("sglang_prompt_tokens",),
            note="every prompt token is looked up",
        ),
        Alias(
            metric=canonical.REQUESTS, names=("sglang_num_requests",), fixed_outcome="finished"
        ),
        Alias(
            metric=canonical.PREEMPTIONS,
            names=("sglang_num_retracted_requests", "sglang_num_retracted_reqs"),
            note="the gauge num_retracted_reqs is of one moment and is not used",
        ),
        Alias(metric=canonical.TTFT, names=("sglang_time_to_first_token_seconds",)),
        Alias(
            metric=canonical.ITL,
            names=("sglang_inter_token_latency_seconds", "sglang_time_per_output_token_seconds"),
        ),
        Alias(metric=canonical.E2E, names=("sglang_e2e_request_latency_seconds",)),
        Alias(metric=canonical.QUEUE, names=("sglang_queue_time_seconds",)),
    ),
    required=(
        canonical.RUNNING, canonical.WAITING, canonical.KV_USAGE, canonical.PROMPT_TOKENS,
        canonical.OUTPUT_TOKENS, canonical.TTFT, canonical.E2E,
    ),
    notes=("gauges are set at moments of the scheduler's choosing: prefer the histograms",),
)  # fmt: skip
