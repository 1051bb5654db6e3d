"""OpenTelemetry's generative AI names (`--genai-metrics`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.metrics.catalogue.genai import GENAI_DURATION, GENAI_TPOT, GENAI_TTFT
from harness.server.series import Histograms

if TYPE_CHECKING:
    from harness.server.timings import Timings

PROVIDER: Final = "tailbreak"


class GenAiMetrics:
    """Durations of requests by operation; the label order is the catalogue's."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self._duration = Histograms(GENAI_DURATION)
        self._ttft = Histograms(GENAI_TTFT)
        self._tpot = Histograms(GENAI_TPOT)

    @property
    def families(self) -> list[Histograms]:
        """Give all of them."""
        return [self._duration, self._ttft, self._tpot]

    def record_finished(self, operation: str, timings: Timings) -> None:
        """Count a request that ran to its end."""
        labels = operation, PROVIDER, self._model
        self._duration.observe(timings.wall_s, *labels, "")
        if timings.ttft_s is None:
            return
        self._ttft.observe(timings.ttft_s, *labels)
        if timings.n_output > 1:
            per_token_s = (timings.wall_s - timings.ttft_s) / (timings.n_output - 1)
            self._tpot.observe(per_token_s, *labels)

    def record_broken(self, operation: str, outcome: str, wall_s: float) -> None:
        """Count a request that was cancelled or failed."""
        self._duration.observe(wall_s, operation, PROVIDER, self._model, outcome)
