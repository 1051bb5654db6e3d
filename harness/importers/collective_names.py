"""What NCCL and gloo call their collectives, as the names that we use (`all_reduce`)."""

import re
from typing import Final

KERNEL: Final = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+?)(?:_|\(|$)")
SPAN: Final = re.compile(r"(?:nccl|gloo):_?(\w+)")
KINDS: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send_recv",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv",
}


def of_kernel(name: str) -> str | None:
    """The collective that a kernel of the device does; None where it is no kernel of NCCL."""
    found = KERNEL.match(name)
    return _kind(found.group(1)) if found else None


def of_span(name: str) -> str | None:
    """The collective that a span of torch.distributed stands for, or None."""
    found = SPAN.match(name)
    return _kind(found.group(1)) if found else None


def _kind(told: str) -> str:
    bare = told.replace("_", "").lower()
    return next((word for start, word in KINDS.items() if bare.startswith(start)), told)
