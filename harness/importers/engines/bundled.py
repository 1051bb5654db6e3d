"""The bundled reference server, by its own names."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical, server
from harness.metrics.catalogue.metric import Metric


def _names(metric: Metric) -> tuple[str, ...]:
    return (metric.name.removesuffix("_total"),)


BUNDLED: Final = Engine(
    name="tailbreak",
    title="tailbreak's reference server",
    prefixes=("mc_accel_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=_names(server.RUNNING)),
        Alias(metric=canonical.WAITING, names=_names(server.WAITING)),
        Alias(
            metric=canonical.KV_USAGE,
            names=_names(server.KV_HELD),
            over=(server.KV_CAPACITY.name, {}),
        ),
        Alias(metric=canonical.PROMPT_TOKENS, names=_names(server.PROMPT_TOKENS)),
        Alias(metric=canonical.OUTPUT_TOKENS, names=_names(server.OUTPUT_TOKENS)),
        Alias(metric=canonical.REQUESTS, names=_names(server.REQUESTS), outcome="outcome"),
        Alias(metric=canonical.PREEMPTIONS, names=_names(server.EVICTIONS)),
        Alias(metric=canonical.PREFIX_HITS, names=_names(server.PREFIX_HITS)),
        Alias(
            metric=canonical.PREFIX_QUERIES,
            names=_names(server.PREFIX_QUERIES),
        ),
        Alias(metric=canonical.TTFT, names=_names(server.TTFT)),
        Alias(metric=canonical.ITL, names=_names(server.ITL)),
        Alias(metric=canonical.E2E, names=_names(server.INFER_DURATION)),
        Alias(
            metric=canonical.QUEUE, names=_names(server.PHASE_DURATION), only={"phase": "queue"}
        ),
    ),
    required=(
        canonical.RUNNING, canonical.WAITING, canonical.KV_USAGE, canonical.PREEMPTIONS,
    ),
)  # fmt: skip
