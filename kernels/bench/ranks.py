"""Processes of one group on this machine: started, joined by gloo over loopback, gathered.

The work of a rank is a function of this package; what it gives comes back as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import distributed
from torch.multiprocessing.spawn import (
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
)

Work = Callable[..., Any]
_LOOPBACK: Final = {"linux": "lo", "darwin": "lo0"}


def run_ranks(n_ranks: int, work: Work, *arguments: Any) -> list[Any]:
    """Call `work(rank, *arguments)` in so many processes of one group; what each gave, by rank.

    Raises:
        RuntimeError: a rank failed or died; the others are ended.
    """
    with tempfile.TemporaryDirectory(prefix="tailbreak-ranks-") as folder:
        try:
            spawn(  # type: ignore[no-untyped-call]
                _rank, (n_ranks, folder, work, arguments), nprocs=n_ranks
            )
        except (
            ProcessRaisedException,
            ProcessExitedException,
        ) as error:
            raise RuntimeError(f"a rank failed: {str(error).strip().splitlines()[-1]}") from error
        return [json.loads(_answer(folder, rank).read_text()) for rank in range(n_ranks)]


def _rank(rank: int, n_ranks: int, folder: str, work: Work, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)  # the ranks share the cores
    if sys.platform in _LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK[sys.platform])
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=n_ranks
    )
    try:
        _answer(folder, rank).write_text(json.dumps(work(rank, *arguments)))
        distributed.barrier()
    finally:
        distributed.destroy_process_group()


def _answer(folder: str, rank: int) -> Path:
    return Path(folder) / f"answer{rank}.json"
