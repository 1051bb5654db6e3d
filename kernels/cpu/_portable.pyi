"""Types of the native kernels; every build (`_portable`, `_avx2`, `_avx512`) has the same."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array: TypeAlias = NDArray[Any]

ISA: str

def best_isa() -> str: ...

# Contracts in kernels/<op>.py. Tensors lie in host memory and are of the types that are asked for.
def measure_divergence(first: Tensor, second: Tensor, result: Tensor) -> None: ...
def draw_monte_carlo(
    result: Tensor,
    law: str,
    seed: int,
    rows: Tensor,
    first_column: int,
    location: Tensor,
    scale: Tensor,
) -> None: ...
def merge_similar(embeddings: Tensor, scores: Tensor, threshold: float, into: Tensor) -> None: ...
def philox_block(counter_and_key: NDArray[np.uint32], output: NDArray[np.uint32]) -> None: ...
def step_beams(scores: Tensor, logprobs: Tensor, flat: Tensor, totals: Tensor) -> None: ...

class LogitBias:
    """Bias on single tokens; see `kernels.logit_bias`."""

    def __init__(self, token_ids: list[int], values: list[float], *, vocab_size: int) -> None: ...

def add_bias(logits: NDArray[np.float32], biases: list[LogitBias | None]) -> None: ...

class PenaltyState:
    """What one request has seen; see `kernels.penalties.PenaltyState`."""

    def __init__(
        self,
        prompt_ids: list[int],
        *,
        vocab_size: int,
        repetition: float,
        frequency: float,
        presence: float,
        decay: float,
        window: int,
    ) -> None: ...
    @property
    def n_generated(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    def see(self, token_ids: list[int]) -> None: ...
    def accept(self, token_id: int) -> None: ...
    def rollback(self, n_tokens: int) -> None: ...
    def count(self, token_id: int) -> int: ...
    def is_seen(self, token_id: int) -> bool: ...

def penalise(logits: NDArray[np.float32], states: list[PenaltyState | None]) -> None: ...
def clip_depth_field(
    depth: Array,
    valid: Array,
    result: Array,
    radius: int,
    n_sigma: float,
    floor: float,
    ceiling: float,
) -> None: ...
def clip_logits(logits: Array, depth: float, result: Array) -> None: ...
def extend_hashes(hashes: Array, words: Array, result: Array) -> None: ...
def pack_index(steps: Array, hashes: Array, result: Array) -> None: ...
def encode_fp8(values: Array, codes: Array) -> None: ...
def decode_fp8(codes: Array, values: Array) -> None: ...
def pack_fp8(values: Array, codes: Array, scales: Array) -> None: ...
def unpack_fp8(codes: Array, scales: Array, values: Array) -> None: ...
def pack_int4(values: Array, codes: Array, scales: Array) -> None: ...
def unpack_int4(codes: Array, scales: Array, values: Array) -> None: ...
def write_kv(records: Array, slots: Array, keys: Array, values: Array) -> None: ...
def read_kv(records: Array, slots: Array, keys: Array, values: Array) -> None: ...
def paged_attention(
    queries: Array,
    kv: Array,
    first_slots: Array,
    lengths: Array,
    block_size: int,
    scale: float,
    n_threads: int,
    results: Array,
) -> None: ...
def measure_entropy(logits: Tensor, result: NDArray[np.float64], n_threads: int) -> None: ...
def measure_logprobs(
    logits: Tensor,
    token_ids: Tensor,
    chosen: Tensor,
    top_ids: Tensor,
    top: Tensor,
    n_threads: int,
) -> None: ...
def draw_rows(
    logits: Tensor,
    settings: NDArray[np.uint8],
    tokens: NDArray[np.int64],
    is_faulty: NDArray[np.bool_],
    has_nan: NDArray[np.bool_],
    entropy: NDArray[np.float64] | None,
    n_threads: int,
) -> None:
    """Draw a token for each row; `settings` holds the bytes of records SETTINGS."""

def spread_rows(
    logits: Tensor, settings: NDArray[np.uint8], probabilities: Tensor, n_threads: int
) -> None:
    """Write the distribution that each row is drawn from."""
