"""vLLM's names for what the reference server measures too: for boards and tools that know them.

Only what means the same is here. The colons are no OpenMetrics names: text format 0.0.4 only.
Source: vLLM, metrics of its V1 engine. `finished_reason`: stop, length or abort.
"""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import counter, gauge, latency

MODEL: Final = "model_name"

VLLM_RUNNING: Final = gauge("vllm:num_requests_running", "Sequences that hold KV memory.", MODEL)
VLLM_WAITING: Final = gauge(
    "vllm:num_requests_waiting", "Sequences that wait in the engines.", MODEL
)
VLLM_KV_USAGE: Final = gauge(
    "vllm:kv_cache_usage_perc", "Share of KV memory that is held; 1 is all of it.", MODEL
)
VLLM_PROMPT_TOKENS: Final = counter(
    "vllm:prompt_tokens_total", "Prompt tokens of finished requests.", MODEL
)
VLLM_GENERATION_TOKENS: Final = counter(
    "vllm:generation_tokens_total", "Generated tokens of finished requests.", MODEL
)
VLLM_SUCCESS: Final = counter(
    "vllm:request_success_total", "Finished requests by reason.", MODEL, "finished_reason"
)
VLLM_PREFIX_QUERIES: Final = counter(
    "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", MODEL
)
VLLM_PREFIX_HITS: Final = counter(
    "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", MODEL
)
VLLM_PREEMPTIONS: Final = counter(
    "vllm:num_preemptions_total", "Sequences that lost their KV memory.", MODEL
)
VLLM_TTFT: Final = latency(
    "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", MODEL
)
VLLM_ITL: Final = latency(
    "vllm:inter_token_latency_seconds", "Gap between two tokens of one sequence.", MODEL
)
VLLM_E2E: Final = latency(
    "vllm:e2e_request_latency_seconds", "From a request's arrival to its last event.", MODEL
)
VLLM_QUEUE: Final = latency(
    "vllm:request_queue_time_seconds",
    "Time a request waited for a slot or for KV memory; after an eviction that wait too.",
    MODEL,
)

VLLM_METRICS: Final = (
    VLLM_RUNNING, VLLM_WAITING, VLLM_KV_USAGE, VLLM_PROMPT_TOKENS, VLLM_GENERATION_TOKENS,
    VLLM_SUCCESS, VLLM_PREFIX_QUERIES, VLLM_PREFIX_HITS, VLLM_PREEMPTIONS, VLLM_TTFT, VLLM_ITL,
    VLLM_E2E, VLLM_QUEUE,
)  # fmt: skip
