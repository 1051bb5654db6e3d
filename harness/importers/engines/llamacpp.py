"""llama.cpp's server (started with --metrics)."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

LLAMACPP: Final = Engine(
    name="llamacpp",
    title="llama.cpp",
    prefixes=("llamacpp_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=("llamacpp_requests_processing",)),
        Alias(metric=canonical.WAITING, names=("llamacpp_requests_deferred",)),
        Alias(
            metric=canonical.KV_USAGE,
            names=("llamacpp_kv_cache_usage_ratio",),
            note="later builds have none",
        ),
        Alias(metric=canonical.PROMPT_TOKENS, names=("llamacpp_prompt_tokens",)),
        Alias(metric=canonical.OUTPUT_TOKENS, names=("llamacpp_tokens_predicted",)),
    ),
    required=(canonical.RUNNING, canonical.WAITING, canonical.PROMPT_TOKENS),
    kinds={"llamacpp_n_busy_slots_per_decode": "gauge"},
    notes=(
        "its gauges of tokens per second are of one moment or of its life, by build: not used",
        "it has no histograms",
    ),
)
