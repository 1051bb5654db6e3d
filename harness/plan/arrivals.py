"""When an open loop sends: absolute offsets from the segment's start, never re-anchored."""

import numpy as np

NS = 1_000_000_000


def constant_ns(n: int, rate_rps: float) -> np.ndarray:
    """Offsets of n sends at a constant rate: i / rate.

    Shapes:
        returns (n,) int64.
    Units:
        rate_rps in requests per second, result in nanoseconds.
    """
    return np.round(np.arange(n) * (NS / rate_rps)).astype(np.int64)


def poisson_ns(n: int, rate_rps: float, rng: np.random.Generator) -> np.ndarray:
    """Offsets of the first n events of a Poisson process: cumulated exponential gaps.

    Shapes:
        returns (n,) int64, non-decreasing; the first send waits a gap as every other.
    Units:
        rate_rps in requests per second, result in nanoseconds.
    """
    gaps = rng.exponential(1.0 / rate_rps, size=n)
    return np.round(np.cumsum(gaps) * NS).astype(np.int64)
