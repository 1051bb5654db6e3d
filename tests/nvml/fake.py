"""A libnvidia-ml.so.1 that a scenario file drives, and `tailbreak exporter` upon it.

`scenario.h` says what a scenario may hold. Without a clock file the scenario's time runs from the
start of the exporter; with one, a test sets it.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent
TWO_RINGS: Final = FOLDER / "two_rings.txt"
A100: Final = FOLDER / "a100.txt"
MIG: Final = FOLDER / "mig.txt"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@cache
def build(*defines: str) -> Path:
    """Folder of the built library; once a process."""
    holder = tempfile.TemporaryDirectory(prefix="fake-nvml-")
    _HOLDERS.append(holder)
    library = Path(holder.name) / "libnvidia-ml.so.1"
    subprocess.run(
        [
            "cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror",
            "-Wno-format-truncation", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1",
            *(f"-D{each}" for each in defines), "-o", str(library), str(FOLDER / "fake_nvml.c"),
        ],
        check=True,
    )  # fmt: skip
    return library.parent


_HOLDERS: list["tempfile.TemporaryDirectory[str]"] = []


@dataclass(frozen=True, kw_only=True)
class FakeClock:
    """The fake's time, in a file."""

    path: Path

    def set(self, seconds: float) -> None:
        """From now on it is this time; readers never see a half-written number."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(repr(seconds))
        fresh.replace(self.path)


@contextmanager
def loaded(scenario: Path, clock: Path, *defines: str) -> Iterator[FakeClock]:
    """`pynvml` of this process upon the fake, at time 0; as it was afterwards."""
    import pynvml

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_NVML_SCENARIO", str(scenario))
        patch.setenv("FAKE_NVML_CLOCK", str(clock))
        library = ctypes.CDLL(str(build(*defines) / "libnvidia-ml.so.1"))
        patch.setattr(pynvml, "nvmlLib", library)
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        fake = FakeClock(path=clock)
        fake.set(0)
        yield fake


def environment(scenario: Path, *defines: str, clock: Path | None = None) -> dict[str, str]:
    """Environment of a process that shall meet the fake."""
    found = {
        **os.environ,
        "LD_LIBRARY_PATH": str(build(*defines)),
        "FAKE_NVML_SCENARIO": str(scenario),
    }
    return found if clock is None else {**found, "FAKE_NVML_CLOCK": str(clock)}


@contextmanager
def gpu_exporter(
    scenario: Path = TWO_RINGS, *options: str, clock: Path | None = None
) -> Iterator[str]:
    """`tailbreak exporter` on a free port upon the fake: its host:port."""
    command = [sys.executable, "-m", "harness.cli.main", "exporter", "--port", "0", *options]
    process = subprocess.Popen(
        command, env=environment(scenario, clock=clock), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, f"no address: {line!r}"
        yield line.partition("http://")[2].partition("/")[0].strip()
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert process.stdout is not None
        process.stdout.close()
