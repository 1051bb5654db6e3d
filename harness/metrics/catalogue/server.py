"""What the reference inference server exposes on `/metrics`."""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import Metric, counter, gauge, latency

INFER_DURATION: Final = latency(
    "mc_accel_infer_duration_seconds",
    "Whole inference, from the request's arrival to its last event.",
    "path",
)
PHASE_DURATION: Final = latency(
    "mc_accel_phase_duration_seconds", "Time one request spent in one phase.", "phase", "path"
)
REQUESTS: Final = counter(
    "mc_accel_requests_total", "Finished requests by path and outcome.", "path", "outcome"
)
REFUSED: Final = counter(
    "mc_accel_refused_total", "Requests answered with an error status, by status.", "status"
)
PROMPT_TOKENS: Final = counter(
    "mc_accel_prompt_tokens_total", "Prompt tokens of finished requests.", "path"
)
OUTPUT_TOKENS: Final = counter(
    "mc_accel_output_tokens_total",
    "Generated tokens of finished requests, reasoning included.",
    "path",
)
EVICTIONS: Final = counter(
    "mc_accel_evictions_total",
    "Sequences that lost their KV memory and were recomputed.",
    "pool",
)
PREFIX_QUERIES: Final = counter(
    "mc_accel_prefix_query_tokens_total",
    "Prompt tokens that were looked up in the prefix cache.",
    "pool",
)
PREFIX_HITS: Final = counter(
    "mc_accel_prefix_hit_tokens_total",
    "Prompt tokens whose keys and values came from the prefix cache.",
    "pool",
)
JOURNAL_FAILURES: Final = counter(
    "mc_accel_journal_failures_total", "Journal rows that could not be written."
)
JOURNAL_WAITS: Final = counter(
    "mc_accel_journal_waits_total",
    "Requests that found the queue of `async_store` full and waited for room.",
)
RUNNING: Final = gauge("mc_accel_running_sequences", "Sequences that hold KV memory.", "pool")
WAITING: Final = gauge("mc_accel_waiting_sequences", "Sequences that wait in the engine.", "pool")
KV_HELD: Final = gauge(
    "mc_accel_kv_held_tokens",
    "Token slots of the KV arena that running sequences keep, used or not.",
    "pool",
)
KV_KEPT: Final = gauge(
    "mc_accel_kv_kept_tokens",
    "Token slots no running sequence keeps, whose prefix a later prompt may still use.",
    "pool",
)
KV_CAPACITY: Final = gauge("mc_accel_kv_capacity_tokens", "Token slots of the KV arena.", "pool")

POOL_UP: Final = gauge(
    "mc_accel_pool_up", "1 while a pool's engine process serves, 0 once it died.", "pool"
)
RESTARTS: Final = counter(
    "mc_accel_restarts_total",
    "Requests that began anew elsewhere because this pool died under them.",
    "pool",
)

FAULT_INFO: Final = gauge(
    "mc_accel_fault_info",
    "1 for each fault that was planted at start (`--faults`); no series without.",
    "fault",
)

TTFT: Final = latency(
    "mc_accel_ttft_seconds", "From a request's arrival to its first token.", "path"
)
ITL: Final = latency(
    "mc_accel_itl_seconds",
    "Gap between two tokens of one sequence, as the engine produced them.",
    "path",
)
REFUSED_5XX: Final = counter(
    "mc_accel_5xx_total", "Requests answered with an error of status 500 and above."
)
BATCH: Final = Metric(
    name="mc_accel_batch_sequences",
    type="histogram",
    help="Sequences that took part in one engine step.",
    labels=("pool",),
    buckets=(1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256),
)
STORE_IN_USE: Final = gauge(
    "mc_accel_store_connections_in_use", "Connections to the journal that are taken now."
)
STORE_LIMIT: Final = gauge(
    "mc_accel_store_connections_limit", "Connections to the journal there may be at once."
)
STORE_WAITING: Final = gauge(
    "mc_accel_store_waiting_rows", "Journal rows whose writing waits for a connection."
)
GC_PAUSE: Final = latency(
    "mc_accel_gc_pause_seconds",
    "One search for cyclic garbage; `process` is front or a pool.",
    "process",
    "generation",
)
GC_ALLOCATED: Final = counter(
    "mc_accel_gc_allocated_objects_total",
    "Container objects made and not freed at once, as of the latest search.",
    "process",
)
HEAP: Final = gauge(
    "mc_accel_heap_bytes",
    "Memory of a process that is its own and resident.",
    "process",
    unit="bytes",
)
LOOP_LAG: Final = latency(
    "mc_accel_event_loop_lag_seconds", "How late the front's event loop wakes from a sleep."
)
ENERGY: Final = counter(
    "mc_accel_energy_joules_total",
    "Energy that `source` used since the server started; no series where it cannot be read.",
    "source",
    unit="joules",
)
SERVER_METRICS: Final = (
    INFER_DURATION,
    PHASE_DURATION,
    REQUESTS,
    REFUSED,
    PROMPT_TOKENS,
    OUTPUT_TOKENS,
    EVICTIONS,
    PREFIX_QUERIES,
    PREFIX_HITS,
    JOURNAL_FAILURES,
    JOURNAL_WAITS,
    RUNNING,
    WAITING,
    KV_HELD,
    KV_KEPT,
    KV_CAPACITY,
    POOL_UP,
    RESTARTS,
    FAULT_INFO,
    TTFT,
    ITL,
    REFUSED_5XX,
    BATCH,
    STORE_IN_USE,
    STORE_LIMIT,
    STORE_WAITING,
    GC_PAUSE,
    GC_ALLOCATED,
    HEAP,
    LOOP_LAG,
    ENERGY,
)
