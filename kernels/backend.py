"""Which implementation of an op runs: `cpu` (native C++) or `torch` (eager, everywhere).

Every op asks `choose_backend` and nothing else decides. The native one is taken where it is built
and the data lies in host memory; a caller who names a backend gets that one or an error, never
another. Later backends (`triton`) join the list and the rule. Nothing here imports torch.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from kernels import cpu

if TYPE_CHECKING:
    from collections.abc import Iterator

Backend = Literal["torch", "cpu"]
BACKENDS: Final[tuple[Backend, ...]] = ("torch", "cpu")

_recorders: list[list[tuple[str, Backend]]] = []


class BackendError(RuntimeError):
    """The backend that was asked for cannot run here."""


def has_native() -> bool:
    """Whether the native kernels are built."""
    return cpu.PROBLEM is None


def choose_backend(op: str, device: str, asked: Backend | None = None) -> Backend:
    """Give the backend that runs `op` on data of `device` ("cpu", "cuda:0", ...).

    Raises:
        BackendError: The asked one is unknown, not built, or cannot reach the device.
    """
    if asked is not None and asked not in BACKENDS:
        raise BackendError(f"{op}: got backend {asked!r}, allowed {', '.join(BACKENDS)}")
    if asked == "cpu" and cpu.PROBLEM is not None:
        raise BackendError(f"{op}: backend 'cpu' cannot run: {cpu.PROBLEM}")
    if asked == "cpu" and device != "cpu":
        raise BackendError(f"{op}: backend 'cpu' cannot reach {device}; allowed here: torch")
    chosen: Backend = asked or ("cpu" if device == "cpu" and has_native() else "torch")
    for calls in _recorders:
        calls.append((op, chosen))
    return chosen


@contextmanager
def record_calls() -> Iterator[list[tuple[str, Backend]]]:
    """Collect (op, backend) of every call inside the block: the proof of what ran."""
    calls: list[tuple[str, Backend]] = []
    _recorders.append(calls)
    try:
        yield calls
    finally:
        _recorders.remove(calls)
