"""What a bench ran on: without it a figure says nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from kernels import cpu
from kernels.bench import bandwidth

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1 << 20
SIZES: Final = (MIB // 2, 16 * MIB, 128 * MIB)
QUIET_LOAD: Final = 0.5
"""Load average for each core from which on other work is told."""


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Processor, versions, other work, and the memory's measured rates in bytes a second."""
    return {
        "processor": _processor(),
        "n_cores": cores(),
        "isa": cpu.PROBLEM or cpu.native.ISA,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "read_bytes_per_s": {
            str(n_threads): {str(size): bandwidth.rate(size, n_threads) for size in SIZES}
            for n_threads in (1, 2)
        },
        "copy_bytes_per_s": {str(size): bandwidth.rate(size, 1, "copy") for size in SIZES},
    }


def tell(machine: dict[str, Any]) -> Iterator[str]:
    """The same in sentences."""
    yield (
        f"{machine['processor']}, {machine['n_cores']} cores; native build {machine['isa']}; "
        f"torch {machine['torch']}, Python {machine['python']}"
    )
    for n_threads, rates in machine["read_bytes_per_s"].items():
        told = ", ".join(
            f"{int(size) / MIB:g} MiB {rate / 1e9:.0f}" for size, rate in rates.items()
        )
        yield f"memory read by {n_threads} thread{'s' * (n_threads != '1')}, GB/s: {told}"
    told = other_work(machine["load_average"])
    if told:
        yield told


def other_work(load_average: float) -> str:
    """What a busy machine does to figures; empty on a quiet one."""
    if load_average <= QUIET_LOAD * cores():
        return ""
    return (
        f"not quiet: load average {load_average:.1f} on {cores()} cores; "
        "trust ratios, not milliseconds"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
