"""Every way the native kernels are built, beside the eager backend: tests run over all of them."""

import importlib

import pytest

from kernels import cpu
from kernels.backend import Backend, has_native


def can_run(isa: str) -> bool:
    """Whether this machine has the build and its instructions."""
    return has_native() and cpu.ISAS.index(isa) <= cpu.ISAS.index(cpu.native.best_isa())


each_build = pytest.mark.parametrize(
    "build",
    [
        "torch",
        *(
            pytest.param(isa, marks=pytest.mark.skipif(not can_run(isa), reason=f"no {isa} here"))
            for isa in cpu.ISAS
        ),
    ],
)


def use(build: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Let the native backend be this build; give the backend to ask for."""
    if build == "torch":
        return "torch"
    module = importlib.import_module(f"kernels.cpu._{build}")
    assert build == module.ISA
    monkeypatch.setattr(cpu, "native", module)
    return "cpu"
