"""What any inference server says of itself, in one vocabulary: names, units and labels.

Adapters (`importers.engines`) translate servers' own names into these; the colon marks what was
derived and is exposed by nobody, as it does in Prometheus's recording rules. What a server does not
say has no series.
"""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import Metric, counter, gauge


def _histogram(name: str, text: str) -> Metric:
    """A histogram whose bounds are the server's own."""
    return Metric(name=name, type="histogram", help=text, unit="seconds")


ENGINE: Final = gauge("llm:engine_info", "1 for the kind of server that was recognised.", "engine")
RUNNING: Final = gauge("llm:requests_running", "Requests in the batch.")
WAITING: Final = gauge("llm:requests_waiting", "Requests that wait to be scheduled.")
KV_USAGE: Final = gauge("llm:kv_usage_ratio", "Share of the KV memory in use.", unit="ratio")
PREFIX_RATIO: Final = gauge(
    "llm:prefix_hit_ratio",
    "Share of prompt tokens found in the prefix cache, where only that is told.",
    unit="ratio",
)
PROMPT_TOKENS: Final = counter("llm:prompt_tokens_total", "Prompt tokens processed.")
OUTPUT_TOKENS: Final = counter("llm:output_tokens_total", "Tokens generated.")
REQUESTS: Final = counter(
    "llm:requests_total", "Finished requests, by the server's word for how.", "outcome"
)
PREEMPTIONS: Final = counter(
    "llm:preemptions_total", "Requests that lost their KV memory and were computed again."
)
PREFIX_QUERIES: Final = counter(
    "llm:prefix_query_tokens_total", "Prompt tokens looked up in the prefix cache."
)
PREFIX_HITS: Final = counter(
    "llm:prefix_hit_tokens_total", "Prompt tokens found in the prefix cache."
)
TTFT: Final = _histogram("llm:ttft_seconds", "From a request's arrival to its first token.")
ITL: Final = _histogram("llm:itl_seconds", "Gap between two tokens.")
TPOT: Final = _histogram("llm:tpot_seconds", "Mean gap of one request: no tail of gaps is in it.")
E2E: Final = _histogram("llm:e2e_seconds", "From a request's arrival to its end.")
QUEUE: Final = _histogram("llm:queue_seconds", "How long a request waited to be scheduled.")

CANONICAL_METRICS: Final = (
    ENGINE, RUNNING, WAITING, KV_USAGE, PREFIX_RATIO, PROMPT_TOKENS, OUTPUT_TOKENS, REQUESTS,
    PREEMPTIONS, PREFIX_QUERIES, PREFIX_HITS, TTFT, ITL, TPOT, E2E, QUEUE,
)  # fmt: skip
