"""One rank's vector (penalties, a token mask) to all ranks of a process group, timed.

Contract and the implementation over `torch.distributed`: gloo between processes, NCCL between GPUs.
A collective has no native kernel of ours; what is ours is that the ranks agree on what is sent
before anything is, and that each one's wait is told apart from the transfer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import distributed

from kernels.backend import choose_backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_DTYPES: Final = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
)


class Broadcast(NamedTuple):
    """What this rank saw.

    Attributes:
        wait_ns: From the call until every rank was there.
        transfer_ns: From there until the vector was here.
        n_bytes: Size of the vector.
    """

    wait_ns: int
    transfer_ns: int
    n_bytes: int


def broadcast(
    vector: Tensor,
    *,
    source: int = 0,
    group: distributed.ProcessGroup | None = None,
    now_ns: Callable[[], int] = time.perf_counter_ns,
) -> Broadcast:
    """Overwrite `vector` with that of rank `source`, on every rank of the group.

    Shapes: vector (n,), contiguous, of the same length and type on every rank.

    Raises:
        RuntimeError: There is no process group.
        ValueError: The vector cannot be sent, or the ranks disagree on its length or type: then
            every rank raises and nothing is overwritten.
    """
    if not distributed.is_initialized():
        raise RuntimeError(
            "broadcast: no process group; call torch.distributed.init_process_group first"
        )
    n_ranks = distributed.get_world_size(group)
    if not 0 <= source < n_ranks:
        raise ValueError(f"broadcast: got source {source}, allowed 0 to {n_ranks - 1}")
    choose_backend("broadcast", str(vector.device), "torch")
    began_ns = now_ns()
    _require_agreement(vector, group)
    _synchronize(vector)
    ready_ns = now_ns()
    distributed.broadcast(vector, group_src=source, group=group)
    _synchronize(vector)
    return Broadcast(
        ready_ns - began_ns, now_ns() - ready_ns, vector.numel() * vector.element_size()
    )


def _require_agreement(vector: Tensor, group: distributed.ProcessGroup | None) -> None:
    """Compare length and type over all ranks, a rank's own problem included."""
    is_sound = vector.dim() == 1 and vector.is_contiguous() and vector.dtype in _DTYPES
    kind = _DTYPES.index(vector.dtype) if is_sound else -1
    own = torch.tensor([vector.numel(), kind], device=vector.device)
    every = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(every, own, group=group)
    told = [tuple(each.tolist()) for each in every]
    if not is_sound:
        raise ValueError(
            f"broadcast: got {tuple(vector.shape)} {vector.dtype}, contiguous: "
            f"{vector.is_contiguous()}; allowed a contiguous vector of "
            f"{', '.join(map(str, _DTYPES))}"
        )
    if len(set(told)) > 1:
        shown = ", ".join(
            f"rank {rank}: {n} x {_DTYPES[place] if place >= 0 else 'unsendable'}"
            for rank, (n, place) in enumerate(told)
        )
        raise ValueError(f"broadcast: the ranks disagree on the vector ({shown})")


def _synchronize(vector: Tensor) -> None:
    """Wait for the device's queue: a stamp means nothing before what it stamps has run."""
    if vector.is_cuda:
        torch.cuda.synchronize(vector.device)
