import importlib
import os
import subprocess
import sys

import pytest

from kernels import cpu
from kernels.backend import BackendError, choose_backend, has_native, record_calls

native_only = pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))


def load(isa: str) -> subprocess.CompletedProcess[str]:
    """Import the kernels in a fresh process that asks for a build."""
    return subprocess.run(
        [sys.executable, "-c", "from kernels import cpu; print(cpu.native.ISA)"],
        env={**os.environ, "TAILBREAK_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_kernels_are_ours() -> None:
    """No other distribution's package of that name is imported in their place."""
    package = importlib.import_module("kernels")
    assert package.__file__ is not None
    assert importlib.import_module("harness").__file__.rsplit("/", 2)[0] in package.__file__  # type: ignore[union-attr]


@native_only
def test_host_data_goes_to_the_native_backend_and_is_told() -> None:
    """Without a wish the native kernels run host data, and torch everything else."""
    with record_calls() as calls:
        assert choose_backend("op", "cpu") == "cpu"
        assert choose_backend("op", "cuda:0") == "torch"
        assert choose_backend("op", "cpu", "torch") == "torch"
    choose_backend("later", "cpu")
    assert calls == [("op", "cpu"), ("op", "torch"), ("op", "torch")]


def test_a_backend_that_cannot_run_is_refused() -> None:
    """Who names a backend gets that one or an error that says why."""
    with pytest.raises(BackendError, match="op: got backend 'mps', allowed torch, cpu"):
        choose_backend("op", "cpu", "mps")  # type: ignore[arg-type]
    with pytest.raises(BackendError, match=r"cannot (reach cuda:0|run)"):
        choose_backend("op", "cuda:0", "cpu")


def test_without_native_kernels_torch_runs_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without the kernels works; asking for them tells how to get them."""
    monkeypatch.setattr(cpu, "PROBLEM", "not built; install a C++20 compiler")
    assert choose_backend("op", "cpu") == "torch"
    with pytest.raises(BackendError, match="op: backend 'cpu' cannot run: not built; install"):
        choose_backend("op", "cpu", "cpu")


@native_only
@pytest.mark.parametrize("isa", cpu.ISAS)
def test_a_build_can_be_named(isa: str) -> None:
    """TAILBREAK_ISA loads that build, or is refused with what the machine runs."""
    assert cpu.native.best_isa() in cpu.ISAS
    is_run = cpu.ISAS.index(isa) <= cpu.ISAS.index(cpu.native.best_isa())
    done = load(isa)
    if is_run:
        assert done.stdout == f"{isa}\n", done.stderr
    else:
        assert f"TAILBREAK_ISA: got '{isa}'" in done.stderr


@native_only
def test_an_unknown_build_is_refused() -> None:
    """A misspelt name does not fall back in silence."""
    assert (
        "TAILBREAK_ISA: got 'avx1024', allowed on this machine: portable" in load("avx1024").stderr
    )
