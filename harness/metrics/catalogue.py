"""The catalogue of metrics: every name once, with type, unit, help, labels and buckets.

Exporters build their series from it; dashboards, rules and docs may name nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Full exposed name; a counter's ends in `_total`.
        unit: Base unit, empty for a plain count.
        help: One sentence.
        labels: Label names in order.
        buckets: Upper bounds of a histogram, without +Inf.
    """

    name: str
    type: MetricType
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _geometric(low: float, high: float, ratio: float) -> list[float]:
    """Bounds from `low` up to `high` (exclusive), each `ratio` times the last, three digits."""
    bounds, value = [], low
    while value < high * 0.999:
        bounds.append(float(f"{value:.3g}"))
        value *= ratio
    return bounds


# Classic buckets answer a quantile to within one bucket: 10 % steps where latencies are judged
# (ratio 10^(1/24)), coarser outside.
LATENCY_BUCKETS: Final = (
    0.0001,
    0.0002,
    0.0005,
    *_geometric(0.001, 1.0, 10 ** (1 / 24)),
    *_geometric(1.0, 10.0, 10 ** (1 / 8)),
    10.0,
    20.0,
    50.0,
    100.0,
)

INFER_DURATION: Final = Metric(
    name="mc_accel_infer_duration_seconds",
    type="histogram",
    unit="seconds",
    help="Whole inference, from the request's arrival to its last event.",
    labels=("path",),
    buckets=LATENCY_BUCKETS,
)
PHASE_DURATION: Final = Metric(
    name="mc_accel_phase_duration_seconds",
    type="histogram",
    unit="seconds",
    help="Time one request spent in one phase.",
    labels=("phase", "path"),
    buckets=LATENCY_BUCKETS,
)
REQUESTS: Final = Metric(
    name="mc_accel_requests_total",
    type="counter",
    help="Finished requests by path and outcome.",
    labels=("path", "outcome"),
)
REFUSED: Final = Metric(
    name="mc_accel_refused_total",
    type="counter",
    help="Requests answered with an error status, by status.",
    labels=("status",),
)
PROMPT_TOKENS: Final = Metric(
    name="mc_accel_prompt_tokens_total",
    type="counter",
    help="Prompt tokens of finished requests.",
    labels=("path",),
)
OUTPUT_TOKENS: Final = Metric(
    name="mc_accel_output_tokens_total",
    type="counter",
    help="Generated tokens of finished requests, reasoning included.",
    labels=("path",),
)
EVICTIONS: Final = Metric(
    name="mc_accel_evictions_total",
    type="counter",
    help="Sequences that lost their KV memory and were recomputed.",
)
PREFIX_HITS: Final = Metric(
    name="mc_accel_prefix_hit_tokens_total",
    type="counter",
    help="Prompt tokens whose keys and values came from the prefix cache.",
)
JOURNAL_FAILURES: Final = Metric(
    name="mc_accel_journal_failures_total",
    type="counter",
    help="Journal rows that could not be written.",
)
JOURNAL_WAITS: Final = Metric(
    name="mc_accel_journal_waits_total",
    type="counter",
    help="Requests that found the queue of `async_store` full and waited for room.",
)
RUNNING: Final = Metric(
    name="mc_accel_running_sequences", type="gauge", help="Sequences that hold KV memory."
)
WAITING: Final = Metric(
    name="mc_accel_waiting_sequences", type="gauge", help="Sequences that wait in the engine."
)
KV_HELD: Final = Metric(
    name="mc_accel_kv_held_tokens",
    type="gauge",
    help="Token slots of the KV arena that running sequences keep, used or not.",
)
KV_KEPT: Final = Metric(
    name="mc_accel_kv_kept_tokens",
    type="gauge",
    help="Token slots no running sequence keeps, whose prefix a later prompt may still use.",
)
KV_CAPACITY: Final = Metric(
    name="mc_accel_kv_capacity_tokens", type="gauge", help="Token slots of the KV arena."
)

POOL_UP: Final = Metric(
    name="mc_accel_pool_up",
    type="gauge",
    help="1 while a pool's engine process serves, 0 once it died.",
    labels=("pool",),
)
RESTARTS: Final = Metric(
    name="mc_accel_restarts_total",
    type="counter",
    help="Requests that began anew elsewhere because this pool died under them.",
    labels=("pool",),
)

FAULT_INFO: Final = Metric(
    name="mc_accel_fault_info",
    type="gauge",
    help="1 for each fault that was planted at start (`--faults`); no series without.",
    labels=("fault",),
)

SERVER_METRICS: Final = (
    INFER_DURATION,
    PHASE_DURATION,
    REQUESTS,
    REFUSED,
    PROMPT_TOKENS,
    OUTPUT_TOKENS,
    EVICTIONS,
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
)
