"""The server's series under vLLM's names, all pools and paths together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.metrics.catalogue import server as own
from harness.metrics.catalogue import vllm
from harness.server.series import Family, Histograms, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.metrics.catalogue.metric import Metric

_TOTALS: Final = {
    vllm.VLLM_RUNNING: own.RUNNING,
    vllm.VLLM_WAITING: own.WAITING,
    vllm.VLLM_PROMPT_TOKENS: own.PROMPT_TOKENS,
    vllm.VLLM_GENERATION_TOKENS: own.OUTPUT_TOKENS,
    vllm.VLLM_PREFIX_QUERIES: own.PREFIX_QUERIES,
    vllm.VLLM_PREFIX_HITS: own.PREFIX_HITS,
    vllm.VLLM_PREEMPTIONS: own.EVICTIONS,
}
_HISTOGRAMS: Final = {
    vllm.VLLM_TTFT: own.TTFT,
    vllm.VLLM_ITL: own.ITL,
    vllm.VLLM_E2E: own.INFER_DURATION,
}
_REASONS: Final = {"stop": "stop", "length": "length", "abort": "cancelled"}


class VllmNames:
    """Follows the server's own series, and counts the one that is none of them."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self._values = {
            metric: Values(metric) for metric in vllm.VLLM_METRICS if metric.type != "histogram"
        }
        self._histograms = {metric: Histograms(metric) for metric in _HISTOGRAMS}
        self._queue = Histograms(vllm.VLLM_QUEUE)

    def record_finished(self, phases: Mapping[str, float]) -> None:
        """Count how long a request waited."""
        self._queue.observe(phases["queue"] + phases["kv_wait"], self._model)

    def follow(
        self, values: Mapping[Metric, Values], histograms: Mapping[Metric, Histograms]
    ) -> list[Family]:
        """Take the server's present values; give the families."""
        for theirs, ours in _TOTALS.items():
            self._values[theirs].set(values[ours].total(), self._model)
        capacity = values[own.KV_CAPACITY].total()
        if capacity:  # with no pool left there is no share of nothing
            usage = values[own.KV_HELD].total() / capacity
            self._values[vllm.VLLM_KV_USAGE].set(usage, self._model)
        else:
            self._values[vllm.VLLM_KV_USAGE].drop(self._model)
        for reason, outcome in _REASONS.items():
            total = values[own.REQUESTS].total(outcome)
            self._values[vllm.VLLM_SUCCESS].set(total, self._model, reason)
        for metric, histogram in self._histograms.items():
            histogram.copy_total(histograms[_HISTOGRAMS[metric]], self._model)
        return [*self._values.values(), *self._histograms.values(), self._queue]
