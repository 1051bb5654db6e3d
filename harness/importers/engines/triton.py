"""Triton Inference Server, with what its TensorRT-LLM backend adds."""

from typing import Final

from harness.importers.engines.engine import Alias, Engine
from harness.metrics.catalogue import canonical

_REQUESTS: Final = "nv_trt_llm_request_metrics"
_BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"
_US: Final = 1e-6

TRITON: Final = Engine(
    name="triton",
    title="Triton Inference Server",
    prefixes=("nv_inference_", "nv_trt_llm_"),
    aliases=(
        Alias(metric=canonical.RUNNING, names=(_REQUESTS,), only={"request_type": "scheduled"}),
        Alias(metric=canonical.WAITING, names=(_REQUESTS,), only={"request_type": "waiting"}),
        Alias(
            metric=canonical.KV_USAGE,
            names=(_BLOCKS,),
            only={"kv_cache_block_type": "used"},
            over=(_BLOCKS, {"kv_cache_block_type": "max"}),
        ),
        Alias(
            metric=canonical.REQUESTS,
            names=("nv_inference_request_success",),
            fixed_outcome="success",
        ),
        Alias(
            metric=canonical.REQUESTS,
            names=("nv_inference_request_failure",),
            fixed_outcome="failure",
        ),
        Alias(
            metric=canonical.E2E,
            names=("nv_inference_request_duration_us",),
            part="_sum",
            factor=_US,
        ),
        Alias(metric=canonical.E2E, names=("nv_inference_request_success",), part="_count"),
        Alias(
            metric=canonical.QUEUE,
            names=("nv_inference_queue_duration_us",),
            part="_sum",
            factor=_US,
        ),
        Alias(metric=canonical.QUEUE, names=("nv_inference_request_success",), part="_count"),
    ),
    required=(canonical.REQUESTS,),
    repeats=("model", "version", "gpu_uuid"),
    notes=(
        "an ensemble and its parts each count a request: the model that counts most is taken",
        "times are sums: means can be had, tails cannot",
    ),
)
