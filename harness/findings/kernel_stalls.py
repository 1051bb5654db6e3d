"""Why warps of a kernel stand still, how fast it issues, how much memory it moves: by counters.

There is no unit of a processor that computes penalties: such work is ordinary arithmetic, and what
it waits for is a stall reason of the warp scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from harness.records.kernel_counters import KernelCounters, Launch

MEANINGS: Final = {
    "long_scoreboard": "waits for global, local or texture memory",
    "short_scoreboard": "waits for shared memory or special functions (sqrt, exp, rsqrt)",
    "math_pipe_throttle": "waits for an arithmetic pipe that is full",
    "mio_throttle": "the queue for shared memory and special functions is full",
    "lg_throttle": "the queue for global and local memory is full",
    "tex_throttle": "the queue for texture memory is full",
    "barrier": "waits for other warps of its block",
    "membar": "waits for a memory fence",
    "wait": "fixed latency of the instruction before",
    "not_selected": "ready, but another warp was chosen",
    "no_instruction": "waits for instructions, a cache miss or a jump",
    "branch_resolving": "waits for the target of a branch",
    "imc_miss": "waits for constants that were not cached",
    "dispatch_stall": "the dispatcher holds it back",
    "drain": "has ended, waits for its stores",
    "sleeping": "sleeps",
    "gmma": "waits for the tensor cores",
    "misc": "other",
}
FAMILIES: Final = (
    re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+?)(?:\.sum)?"),
    re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active(?:\.ratio)?"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(\w+?)(?:\.ratio)?"),
)
"""Samples, warps per issue, latency: the first of these families that a launch has is taken."""
DURATION: Final = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
IPC: Final = (
    "sm__inst_executed.avg.per_cycle_active", "sm__inst_executed.avg.per_cycle_elapsed",
    "Executed Ipc Active", "Executed Ipc Elapsed",
)  # fmt: skip
DRAM_RATE: Final = ("dram__bytes.sum.per_second", "Memory Throughput")
DRAM_SHARE: Final = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput (%)",
)  # fmt: skip
SM_SHARE: Final = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput (%)",
)


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """All launches of one kernel; means are weighted by their time, or plain where none is told.

    Attributes:
        time_s: of all launches; None where the file tells none.
        instructions_per_cycle: of one multiprocessor while active.
        dram_bytes_per_s: that memory moved.
        dram_share: of what memory could move.
        sm_share: of what the multiprocessors could do.
        stalls: share of the stalled warps by reason, largest first; empty where none is told.
    """

    kernel: str
    n_launches: int
    time_s: float | None
    instructions_per_cycle: float | None
    dram_bytes_per_s: float | None
    dram_share: float | None
    sm_share: float | None
    stalls: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return asdict(self)


def kernel_rows(counters: KernelCounters) -> list[KernelRow]:
    """One row a kernel, that with the most time first."""
    by_name: dict[str, list[Launch]] = {}
    for launch in counters.launches:
        by_name.setdefault(launch.kernel, []).append(launch)
    rows = [_row(name, launches) for name, launches in by_name.items()]
    return sorted(rows, key=lambda row: -(row.time_s or 0.0))


def _row(name: str, launches: list[Launch]) -> KernelRow:
    times = [_first(each, DURATION) for each in launches]
    told = [each for each in times if each is not None]
    weights = [each or 0.0 for each in times] if sum(told) > 0 else [1.0] * len(launches)
    stalls = [_stalls(each) for each in launches]
    reasons = {reason for each in stalls for reason in each}
    means = {
        reason: _mean((each.get(reason, 0.0) if each else None for each in stalls), weights)
        for reason in reasons
    }
    return KernelRow(
        kernel=name,
        n_launches=len(launches),
        time_s=sum(told) if told else None,
        instructions_per_cycle=_mean((_first(each, IPC) for each in launches), weights),
        dram_bytes_per_s=_mean((_first(each, DRAM_RATE) for each in launches), weights),
        dram_share=_mean((_first(each, DRAM_SHARE) for each in launches), weights),
        sm_share=_mean((_first(each, SM_SHARE) for each in launches), weights),
        stalls=dict(sorted(((r, m) for r, m in means.items() if m), key=lambda pair: -pair[1])),
    )


def _stalls(launch: Launch) -> dict[str, float]:
    """Share by reason; a warp that was selected did not stall."""
    for family in FAMILIES:
        found = {
            match.group(1): max(0.0, value)
            for name, value in launch.values.items()
            if (match := family.fullmatch(name)) and "_not_issued" not in name
        }
        found.pop("selected", None)
        total = sum(found.values())
        if total > 0:
            return {reason: value / total for reason, value in found.items()}
    return {}


def _first(launch: Launch, names: tuple[str, ...]) -> float | None:
    return next((launch.values[name] for name in names if name in launch.values), None)


def _mean(values: Iterable[float | None], weights: list[float]) -> float | None:
    """Over those that are told."""
    told = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None]
    total = sum(w for _, w in told)
    return sum(v * w for v, w in told) / total if total > 0 else None
