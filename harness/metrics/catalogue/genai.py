"""OpenTelemetry's names for generative AI servers, as Prometheus writes them: an opt-in.

Source: OpenTelemetry semantic conventions for generative AI, metrics (status: development), names
and bucket bounds.
"""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import Metric

LABELS: Final = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(
        name=name, type="histogram", help=text, unit="seconds", labels=(*LABELS, *labels),
        buckets=buckets,
    )  # fmt: skip


GENAI_DURATION: Final = _histogram(
    "gen_ai_server_request_duration_seconds",
    "From a request's arrival to its last event; `error_type` where it had none.",
    tuple(0.01 * 2**power for power in range(14)),
    "error_type",
)
GENAI_TTFT: Final = _histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "From a request's arrival to its first token, of requests that came to their end.",
    (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
GENAI_TPOT: Final = _histogram(
    "gen_ai_server_time_per_output_token_seconds",
    "Time per token after the first, of requests that came to their end.",
    (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
)

GENAI_METRICS: Final = (GENAI_DURATION, GENAI_TTFT, GENAI_TPOT)
