"""The broadcast op timed on real ranks: beside torch's own, and under a load on the memory.

A call's latency is that of its slowest rank, from a barrier on. Ours includes that the ranks agree
on what is sent; the transfer alone is told apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import distributed

from kernels.bench.memory_load import Kind, loading
from kernels.bench.ranks import run_ranks
from kernels.bench.timing import Interval
from kernels.broadcast import broadcast

OURS, TORCH = "tailbreak", "torch"
SETTLE_S: Final = 0.03
"""From a new level of the load to the first broadcast under it."""
MOST_CALLS: Final = 400
CALLS_AT_ONCE: Final = 5


@dataclass(frozen=True, kw_only=True)
class Row:
    """One size over so many ranks.

    Attributes:
        latency: until the last rank has it, the agreement included where there is one.
        transfer: of it, the transfer alone.
        torch_takes: torch's latency over this one, within rounds.
    """

    n_ranks: int
    n_bytes: int
    who: str
    latency: Interval
    transfer: Interval
    torch_takes: Interval
    n_rounds: int
    n_calls: int

    @property
    def bytes_per_s(self) -> float:
        """Bytes that each rank receives in a second of transfer."""
        return self.n_bytes / self.transfer.value


@dataclass(frozen=True, kw_only=True)
class Block:
    """A moment at one level of the load.

    Attributes:
        level: share of the time that the load works.
        bytes_per_s: that the load moved.
        latency_s: median of the broadcasts meanwhile.
    """

    level: float
    bytes_per_s: float
    latency_s: float


def time_broadcasts(
    n_ranks: int, sizes: Sequence[int], *, n_rounds: int, slice_s: float
) -> list[Row]:
    """Two rows a size, ours and torch's, in alternating order.

    Raises:
        RuntimeError: a rank failed.
    """
    told = run_ranks(n_ranks, _time_sizes, list(sizes), n_rounds, slice_s)
    return [
        row
        for place, n_bytes in enumerate(sizes)
        for row in _rows(n_ranks, n_bytes, np.array([each[place] for each in told]))
    ]


def _rows(n_ranks: int, n_bytes: int, spent: Any) -> list[Row]:
    """Shapes: spent (n_ranks, n_rounds, who, n_calls, latency | transfer), in nanoseconds."""
    rounds = np.median(spent.max(axis=0), axis=2) / 1e9
    torchs = rounds[:, 1, 0]
    return [
        Row(
            n_ranks=n_ranks,
            n_bytes=n_bytes,
            who=who,
            latency=Interval.of_median(rounds[:, place, 0].tolist()),
            transfer=Interval.of_median(rounds[:, place, 1].tolist()),
            torch_takes=Interval.of_median((torchs / rounds[:, place, 0]).tolist()),
            n_rounds=spent.shape[1],
            n_calls=spent.shape[3],
        )
        for place, who in enumerate((OURS, TORCH))
    ]


def _time_sizes(_: int, sizes: list[int], n_rounds: int, slice_s: float) -> list[Any]:
    told = []
    for n_bytes in sizes:
        vector = torch.zeros(n_bytes // 4)
        n_calls = _calls_in(slice_s, vector)
        rounds = []
        for turn in range(n_rounds):
            order = (_ours, _torchs) if turn % 2 == 0 else (_torchs, _ours)
            spent = {way: [way(vector) for _ in range(n_calls)] for way in order}
            rounds.append([spent[_ours], spent[_torchs]])
        told.append(rounds)
    return told


def _ours(vector: torch.Tensor) -> tuple[int, int]:
    distributed.barrier()
    seen = broadcast(vector)
    return seen.wait_ns + seen.transfer_ns, seen.transfer_ns


def _torchs(vector: torch.Tensor) -> tuple[int, int]:
    distributed.barrier()
    begun = time.perf_counter_ns()
    distributed.broadcast(vector, 0)
    spent = time.perf_counter_ns() - begun
    return spent, spent


def _calls_in(slice_s: float, vector: torch.Tensor) -> int:
    """How many calls fill the slice; the first rank decides for all."""
    spent = [_ours(vector)[0] for _ in range(5)]
    n_calls = torch.tensor([max(1, min(MOST_CALLS, int(slice_s * 1e9 / statistics.median(spent))))])
    distributed.broadcast(n_calls, 0)
    return int(n_calls.item())


def broadcast_under_load(
    n_ranks: int, n_bytes: int, kind: Kind, levels: Sequence[float], *, slice_s: float, n_loads: int
) -> list[Block]:
    """One block a level, in the order given; the first rank turns the load.

    Raises:
        RuntimeError: a rank failed.
    """
    told = run_ranks(n_ranks, _under_load, n_bytes, kind, list(levels), slice_s, n_loads)
    slowest = [
        np.max(block, axis=0) for block in zip(*(each["latency_ns"] for each in told), strict=True)
    ]
    latency = [np.median(block) / 1e9 for block in slowest]
    return [
        Block(level=level, bytes_per_s=rate, latency_s=float(each))
        for level, rate, each in zip(levels, told[0]["bytes_per_s"], latency, strict=True)
    ]


def _under_load(
    rank: int, n_bytes: int, kind: Kind, levels: list[float], slice_s: float, n_loads: int
) -> dict[str, Any]:
    vector = torch.zeros(n_bytes // 4)
    latency_ns, rates = [], []
    with loading(kind, n_loads if rank == 0 else 0) as load:
        distributed.barrier()
        for level in levels:
            load.level = level
            time.sleep(SETTLE_S)
            distributed.barrier()
            begun, before = time.perf_counter(), load.moved()
            latency_ns.append(_calls_for(slice_s, vector))
            rates.append((load.moved() - before) / (time.perf_counter() - begun))
    return {"latency_ns": latency_ns, "bytes_per_s": rates}


def _calls_for(slice_s: float, vector: torch.Tensor) -> list[int]:
    """Latencies of the calls of this while; the first rank says when it is over."""
    until, spent = time.perf_counter() + slice_s, []
    goes_on = torch.ones(1, dtype=torch.bool)
    while goes_on.item():
        spent += [_ours(vector)[0] for _ in range(CALLS_AT_ONCE)]
        goes_on.fill_(time.perf_counter() < until)
        distributed.broadcast(goes_on, 0)
    return spent
