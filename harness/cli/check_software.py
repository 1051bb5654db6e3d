"""The doctor on software and disk: Python, torch, GPU driver, the runs folder, optional tools."""

import ast
import contextlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from harness.cli.check import Check, judge

MIN_PYTHON: Final = (3, 11)
MIN_DISK_GIB: Final = 1.0
SLOW_FSYNC_S: Final = 0.05
N_FSYNCS: Final = 5
TOOLS: Final = {
    "redis-server": ("Redis", "redis-server"),
    "prometheus": ("Prometheus", "prometheus"),
    "chromium": ("Chromium", "chromium"),
}
"""Command, what it is called, Debian's package."""


def check_software(runs_dir: Path) -> Iterator[Check]:
    """Everything about software and disk."""
    yield check_python()
    yield check_torch()
    yield check_kernels()
    yield check_gpu()
    yield from check_runs_dir(runs_dir)
    for command, (name, package) in TOOLS.items():
        yield check_tool(command, name, package)


def check_python() -> Check:
    """The interpreter."""
    found = f"{platform.python_version()} ({sys.implementation.name})"
    if sys.version_info >= MIN_PYTHON:
        return Check(name="python", state="ok", found=found)
    return Check(
        name="python",
        state="impossible",
        found=found,
        costs="tailbreak does not run",
        do="Python 3.11 or later",
    )


def check_torch() -> Check:
    """The torch build, read from its files: importing it takes seconds."""
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    said = _assigned(Path(places[0]) / "version.py") if places else {}
    version, cuda = said.get("__version__"), said.get("cuda")
    return judge(
        "torch",
        ok=version is not None,
        found=f"{version}, " + (f"CUDA {cuda}" if cuda else "CPU build") if version else "none",
        costs="the bundled server does not start; measuring other servers works",
        do="pip install tailbreak again, with its dependencies",
    )


def check_kernels() -> Check:
    """The native kernels, and which build of them this machine runs."""
    from kernels import cpu

    return judge(
        "native kernels",
        ok=cpu.PROBLEM is None,
        found="none" if cpu.PROBLEM else cpu.native.ISA,
        costs="the bundled server's accelerated path is slower and lacks the features that need "
        "them; measuring other servers works",
        do=cpu.HOW_TO_BUILD,
    )


def _assigned(file: Path) -> dict[str, object]:
    """Names that a module assigns constants to, without running it."""
    found: dict[str, object] = {}
    with contextlib.suppress(OSError, SyntaxError):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", 0)]
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant):
                found.update({t.id: value.value for t in targets if isinstance(t, ast.Name)})
    return found


def check_gpu() -> Check:
    """GPUs by NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  the module missing, no driver, no permission
        names, found = [], f"none: {error}"
    else:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        names = [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        pynvml.nvmlShutdown()
        found = ", ".join(names) or "none: the driver lists no device"
    return judge(
        "gpu",
        ok=bool(names),
        found=found,
        costs="no GPU and NVLink metrics, no GPU kernels; everything else works on CPUs",
        do="nothing, unless this machine has an NVIDIA GPU: then install its driver",
    )


def check_runs_dir(runs_dir: Path) -> Iterator[Check]:
    """Whether run folders can be made, how much fits, what syncing costs."""
    place = next(path for path in (runs_dir, *runs_dir.absolute().parents) if path.exists())
    try:
        seconds = _fsync_s(place)
    except OSError as error:
        yield Check(
            name="runs folder",
            state="impossible",
            found=f"{runs_dir}: cannot be written: {error.strerror or error}",
            costs="no run can be recorded",
            do="choose another with --runs-dir",
        )
        return
    yield Check(name="runs folder", state="ok", found=f"{runs_dir} can be written")
    gib = shutil.disk_usage(place).free / 2**30
    yield judge(
        "disk space",
        ok=gib >= MIN_DISK_GIB,
        found=f"{gib:.1f} GiB free",
        costs="a long run stops when the disk is full; what was recorded stays readable",
        do="free some, or choose another folder with --runs-dir",
    )
    yield judge(
        "fsync",
        ok=seconds <= SLOW_FSYNC_S,
        found=f"{seconds * 1e3:.2f} ms for 4 KiB (median of {N_FSYNCS})",
        costs="what a crash of the machine may lose grows; latencies are not touched",
        do="choose a folder on a faster disk with --runs-dir",
    )


def _fsync_s(place: Path) -> float:
    """Median time to write and sync a block in a file of this folder, which is removed again."""
    times = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(N_FSYNCS):
            started_ns = time.monotonic_ns()
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append((time.monotonic_ns() - started_ns) / 1e9)
    return median(times)


def check_tool(command: str, name: str, package: str) -> Check:
    """An optional program."""
    path = shutil.which(command)
    return judge(
        name,
        ok=path is not None,
        found=path or "not installed",
        costs="the tests that start it skip; runs and reports do not need it",
        do=f"apt-get install {package}",
    )
