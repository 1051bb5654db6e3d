"""Servers that are understood, one table a file."""

from typing import Final

from harness.importers.engines.bundled import BUNDLED
from harness.importers.engines.engine import Engine
from harness.importers.engines.llamacpp import LLAMACPP
from harness.importers.engines.sglang import SGLANG
from harness.importers.engines.tensorrt import TENSORRT
from harness.importers.engines.tgi import TGI
from harness.importers.engines.triton import TRITON
from harness.importers.engines.vllm import VLLM

ENGINES: Final[tuple[Engine, ...]] = (
    BUNDLED, VLLM, SGLANG, TGI, LLAMACPP, TENSORRT, TRITON,
)  # fmt: skip
"""The bundled server first: it has vLLM's names as well."""

__all__ = ["ENGINES", "Engine"]
