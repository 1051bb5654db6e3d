"""What hardware counters say of kernels' launches, as a profiler wrote them; base units.

Readers are in `harness.importers`; what is made of it is in `harness.findings.kernel_stalls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of one kernel.

    Attributes:
        values: by the counter's own name; seconds, bytes a second and shares of 1 where the file's
            unit is a time, bytes a time, or percent, otherwise as they stand there.
    """

    kernel: str
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class KernelCounters:
    """One file.

    Attributes:
        file: its path, as it was given.
        tool: who wrote it.
        caveats: what was left out.
    """

    file: str
    tool: str
    launches: tuple[Launch, ...]
    caveats: tuple[str, ...] = ()
