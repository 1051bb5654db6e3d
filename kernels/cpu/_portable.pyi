"""Types of the native kernels; every build (`_portable`, `_avx2`, `_avx512`) has the same."""

from torch import Tensor

ISA: str

def best_isa() -> str: ...
def measure_divergence(first: Tensor, second: Tensor, result: Tensor) -> None: ...
