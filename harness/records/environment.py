"""The machine and the versions behind a run: numbers are never compared across strangers."""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("locust", "gevent", "httptools", "numpy", "pyarrow", "torch", "pandas")


def describe() -> dict[str, str]:
    """What this machine is, as text by name; no host name, no user, no secret."""
    return {
        "tailbreak": version_of("tailbreak"),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory_gib": _memory_gib(),
        "clock_source": _first_line(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        **{f"{name} version": version_of(name) for name in PACKAGES},
    }


def boot_id() -> str:
    """Names this start of this machine: monotonic clocks are comparable within it only."""
    return _first_line(Path("/proc/sys/kernel/random/boot_id"))


def version_of(package: str) -> str:
    """The installed version of a package, or "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0].strip()
    except (OSError, IndexError):
        return "unknown"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory_gib() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.1f}"
