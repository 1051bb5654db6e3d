"""A loop of ranks that work and meet, one of them late on demand, each under the torch profiler.

What is written are ordinary traces: they show on any machine what implicit synchronisation looks
like, with a truth to hold what is read from them against.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import torch
from torch import distributed
from torch.profiler import ProfilerActivity, profile, schedule

from kernels.bench.ranks import run_ranks

SIDE: Final = 192
"""Of the matrices that a step multiplies: about a millisecond."""
N_VALUES: Final = 1 << 14
N_WARM: Final = 3


def trace_ranks(n_ranks: int, late_s: dict[int, float], n_steps: int, folder: Path) -> list[Path]:
    """Profile every rank over `n_steps`; the files, by rank.

    Raises:
        RuntimeError: a rank failed.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it says on stderr when it begins and ends
    return [Path(file) for file in run_ranks(n_ranks, _work, late_s, n_steps, str(folder))]


def _work(rank: int, late_s: dict[int, float], n_steps: int, folder: str) -> str:
    matrix, sums = torch.randn(SIDE, SIDE), torch.ones(N_VALUES)
    steps = schedule(wait=0, warmup=N_WARM, active=n_steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as seen:
        for _ in range(N_WARM + n_steps):
            torch.mm(matrix, matrix)
            time.sleep(late_s.get(rank, 0.0))
            distributed.all_reduce(sums)
            sums.fill_(1.0)
            seen.step()
    file = Path(folder) / f"rank{rank}.json.gz"
    seen.export_chrome_trace(str(file))
    return str(file)
