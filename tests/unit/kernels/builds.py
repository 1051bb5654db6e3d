"""Every implementation that this machine runs: torch, and each build of the native kernels."""

import importlib

import pytest

from kernels import cpu
from kernels.backend import Backend, has_native

TORCH = "torch"


def runnable() -> list[str]:
    """Names for a test's parameters: torch, and the builds up to the machine's best."""
    if not has_native():
        return [TORCH]
    return [TORCH, *cpu.ISAS[: cpu.ISAS.index(cpu.native.best_isa()) + 1]]


def select(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Make one of them the one that runs; give the backend to ask for."""
    if name == TORCH:
        return "torch"
    monkeypatch.setattr(cpu, "native", importlib.import_module(f"kernels.cpu._{name}"))
    return "cpu"
