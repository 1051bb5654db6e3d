"""What the load side exposes of a run, from its records; and what is left of a finished run."""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import counter, gauge, latency

CELL_LABELS: Final = ("service", "version", "scenario", "cell", "path")
"""Labels of everything that is measured per cell; `path` is baseline, accelerated or empty."""

USERS: Final = gauge("locust_user_count", "Users of the run that are at work.")
RUN_UP: Final = gauge(
    "mc_load_up", "1 while the load process writes records, 0 after its end.", "run"
)
RUN_INFO: Final = gauge(
    "mc_load_run_info",
    "1 for the run being watched.",
    "run",
    "scenario",
    "service",
    "version",
    "target",
)
CELL_RUNNING: Final = gauge(
    "mc_load_cell_running",
    "1 for the cell being measured, 0 for the others; `factors` names its place on the grid.",
    *CELL_LABELS,
    "factors",
)
PLANNED: Final = gauge(
    "mc_load_planned_requests", "Requests the plan holds, without its warm-up.", "run"
)
LOAD_REQUESTS: Final = counter(
    "mc_load_requests_total",
    "Requests recorded, warm-up excluded, by outcome.",
    *CELL_LABELS,
    "outcome",
)
LOAD_FAILURES: Final = counter(
    "mc_load_failures_total",
    "Requests recorded that did not come whole; those that a stop of ours cancelled are none.",
    *CELL_LABELS,
)
LOAD_PROMPT_TOKENS: Final = counter(
    "mc_load_prompt_tokens_total", "Prompt tokens of requests that came whole.", *CELL_LABELS
)
LOAD_OUTPUT_TOKENS: Final = counter(
    "mc_load_output_tokens_total",
    "Output tokens of requests that came whole, reasoning included.",
    *CELL_LABELS,
)
LOAD_TTFT: Final = latency(
    "mc_load_ttft_seconds", "From the intended send to the first token.", *CELL_LABELS
)
LOAD_ITL: Final = latency("mc_load_itl_seconds", "Gap between two tokens.", *CELL_LABELS)
LOAD_E2E: Final = latency(
    "mc_load_e2e_seconds", "From the intended send to the end of the answer.", *CELL_LABELS
)
DISPATCH_LAG: Final = latency(
    "mc_load_dispatch_lag_seconds",
    "How late the load generator sent: sent minus intended.",
    *CELL_LABELS,
)
RX_LAG: Final = latency(
    "mc_load_rx_lag_seconds",
    "From the operating system's receive stamp to our reading it.",
    *CELL_LABELS,
)
CHUNKS: Final = counter(
    "mc_load_chunks_total", "Chunks of streams that were stamped.", *CELL_LABELS
)
LATE_CHUNKS: Final = counter(
    "mc_load_late_chunks_total",
    "Chunks that were read late, so that several share a stamp.",
    *CELL_LABELS,
)

LOAD_METRICS: Final = (
    USERS, RUN_UP, RUN_INFO, CELL_RUNNING, PLANNED, LOAD_REQUESTS, LOAD_FAILURES,
    LOAD_PROMPT_TOKENS, LOAD_OUTPUT_TOKENS, LOAD_TTFT, LOAD_ITL, LOAD_E2E, DISPATCH_LAG, RX_LAG,
    CHUNKS, LATE_CHUNKS,
)  # fmt: skip

RUN_QUANTILE: Final = gauge(
    "mc_run_quantile_seconds",
    "A quantile of a finished run's cell; `bound` is value, low or high.",
    *CELL_LABELS,
    "metric",
    "q",
    "bound",
    unit="seconds",
)
RUN_BREAKPOINT: Final = gauge(
    "mc_run_breakpoint",
    "Where a metric breaks on an axis; `at` names the other factors, `bound` is location, low or "
    "high.",
    "service",
    "version",
    "scenario",
    "path",
    "metric",
    "q",
    "axis",
    "at",
    "kind",
    "bound",
)
RUN_SHARE: Final = gauge(
    "mc_run_component_share_ratio",
    "Share of a break's rise that a component explains; `at` names the other factors.",
    "service",
    "version",
    "scenario",
    "path",
    "metric",
    "q",
    "axis",
    "at",
    "component",
    unit="ratio",
)
RUN_VERDICT: Final = gauge(
    "mc_run_verdict",
    "1 for the verdict of a finished run.",
    "service",
    "version",
    "scenario",
    "status",
)
RUN_RATIO: Final = gauge(
    "mc_run_ratio",
    "Candidate over reference of a metric in a cell; `over` is the reference, another path or an "
    "earlier run; `bound` is value, low or high.",
    "service",
    "version",
    "scenario",
    "cell",
    "over",
    "metric",
    "q",
    "bound",
    unit="ratio",
)
