"""Types of the native kernels; every build (`_portable`, `_avx2`, `_avx512`) has the same."""

ISA: str

def best_isa() -> str: ...
