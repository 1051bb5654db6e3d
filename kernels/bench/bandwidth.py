"""How fast this machine's memory is, measured: the floor that no kernel can go below.

Read (a sum) and copy rates for the sizes and thread counts that are asked for, each the fastest of
several tries; small sizes come from the caches, as they do in the kernels. Not from a data sheet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, Literal

import torch

Kind = Literal["read", "copy"]
LEAST_TRIES: Final = 8
TRYING_S: Final = 0.03
LEAST_BYTES: Final = 1 << 16
MOST_BYTES: Final = 1 << 28


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def floor_s(n_bytes: int, n_threads: int, kind: Kind = "read") -> float:
    """Give the least time in which `n_bytes` can be moved; a copy moves each byte twice."""
    size = min(max(n_bytes, LEAST_BYTES), MOST_BYTES)
    # Sizes are rounded up to a power of two: the rates then are few and are measured once.
    return n_bytes / rate(1 << (size - 1).bit_length(), n_threads, kind)


@cache
def rate(n_bytes: int, n_threads: int, kind: Kind = "read") -> float:
    """Bytes a second at this size; never below one thread's, whatever else the machine does."""
    source = torch.ones(n_bytes // 4)
    if kind == "copy":
        target = torch.empty_like(source)
        measured = 2 * n_bytes / _least_s(lambda: target.copy_(source), n_threads)
    else:
        measured = n_bytes / _least_s(source.sum, n_threads)
    return measured if n_threads == 1 else max(measured, rate(n_bytes, 1, kind))


def _least_s(run: Callable[[], object], n_threads: int) -> float:
    with threads(n_threads):
        run()
        first_s = _lapse_s(run)
        return min(_lapse_s(run) for _ in range(max(LEAST_TRIES, int(TRYING_S / first_s))))


def _lapse_s(run: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin) / 1e9
