"""Text Generation Inference."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

TGI: Final = Engine(
    name="tgi",
    title="Text Generation Inference",
    prefixes=("tgi_",),
    aliases=(
        Alias(metric=canonical.RUNNING, names=("tgi_batch_current_size",)),
        Alias(metric=canonical.WAITING, names=("tgi_queue_size",)),
        Alias(metric=canonical.PROMPT_TOKENS, names=("tgi_request_input_length",), of_part="_sum"),
        Alias(
            metric=canonical.OUTPUT_TOKENS,
            names=("tgi_request_generated_tokens",),
            of_part="_sum",
        ),
        Alias(metric=canonical.REQUESTS, names=("tgi_request_success",), fixed_outcome="success"),
        Alias(metric=canonical.REQUESTS, names=("tgi_request_failure",), fixed_outcome="failure"),
        Alias(metric=canonical.E2E, names=("tgi_request_duration",)),
        Alias(metric=canonical.QUEUE, names=("tgi_request_queue_duration",)),
        Alias(metric=canonical.TPOT, names=("tgi_request_mean_time_per_token_duration",)),
    ),
    required=(canonical.WAITING, canonical.RUNNING, canonical.E2E),
    notes=("it has no histogram of the first token and none of single gaps",),
)
