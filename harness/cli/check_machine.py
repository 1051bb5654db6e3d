"""The doctor on the machine: cores, stolen time, other work, limits, priority, ports."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.base.scheduling import NICE, ask_for_short_slices
from harness.cli.check import Check, judge

MIN_CORES: Final = 2
MIN_FILES: Final = 4096
MIN_MEMORY_GIB: Final = 2.0
MAX_STEAL: Final = 0.01
MAX_LOAD_PER_CORE: Final = 0.5
STEAL_WATCHED_S: Final = 0.3
DEFAULT_PORT: Final = 8000
CAP_SYS_NICE: Final = 23
_STEAL: Final = 7
"""Column of /proc/stat's `cpu` line, after user, nice, system, idle, iowait, irq, softirq."""


def check_machine() -> Iterator[Check]:
    """Everything about the machine."""
    yield check_cores()
    yield check_frequency(Path("/sys/devices/system/cpu"))
    yield check_steal()
    yield check_load()
    yield check_files()
    yield check_memory(Path("/proc/meminfo"))
    yield check_priority(Path("/proc/self/status"))
    yield check_slices()
    yield check_port(DEFAULT_PORT)


def check_cores() -> Check:
    """Cores that this process may use."""
    n = len(os.sched_getaffinity(0))
    return judge(
        "cores",
        ok=n >= MIN_CORES,
        found=str(n),
        costs="server and load process wait for each other; runs come out invalid",
        do="use two cores or more, or run the server elsewhere",
    )


def check_frequency(cpus: Path) -> Check:
    """The frequency governor of each core, where it is visible."""
    files = sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = sorted({file.read_text(encoding="utf-8").strip() for file in files})
    return judge(
        "cpu frequency",
        ok=not {"powersave", "conservative"} & set(governors),
        found=", ".join(governors) or "not visible here (usual in a virtual machine)",
        costs="idle cores clock down: latencies at low load are longer and uneven",
        do="cpupower frequency-set -g performance",
    )


def check_steal() -> Check:
    """Share of time that the hypervisor gave to others, now."""
    before = _cpu_times()
    time.sleep(STEAL_WATCHED_S)
    after = _cpu_times()
    if before is None or after is None:
        return Check(name="stolen time", state="ok", found="not visible here")
    total = sum(after) - sum(before)
    share = (after[_STEAL] - before[_STEAL]) / total if total > 0 else 0.0
    return judge(
        "stolen time",
        ok=share <= MAX_STEAL,
        found=f"{share:.1%} over {STEAL_WATCHED_S:g} s",
        costs="other machines on this host put stalls into your tail",
        do="use a machine with cores of its own",
    )


def _cpu_times() -> list[int] | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    except (OSError, IndexError):
        return None
    times = [int(field) for field in fields[1:9]]
    return times if len(times) > _STEAL else None


def check_load() -> Check:
    """Other work on the machine, by the load average of the last minute."""
    load, n = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return judge(
        "other work",
        ok=load <= MAX_LOAD_PER_CORE * n,
        found=f"load average {load:.1f} on {n} cores",
        costs="it competes with the server: its latencies are part of what you measure",
        do="wait until the machine is quiet",
    )


def check_files() -> Check:
    """How many connections can be open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judge(
        "open files",
        ok=soft >= MIN_FILES,
        found=f"limit {soft}, may be raised to {hard}",
        costs=f"at most some {max(0, soft - 100)} requests in flight",
        do=f"ulimit -n {hard if hard > 0 else 65536}",
    )


def check_memory(meminfo: Path) -> Check:
    """Memory that is free to use."""
    try:
        lines = meminfo.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        gib = int(fields["MemAvailable"].split()[0]) / 2**20
    except (OSError, ValueError, KeyError):
        return Check(name="memory", state="ok", found="not visible here")
    return judge(
        "memory",
        ok=gib >= MIN_MEMORY_GIB,
        found=f"{gib:.1f} GiB available",
        costs="the report of a long run may not fit",
        do="free some, or measure fewer requests",
    )


def check_priority(status: Path) -> Check:
    """Whether the load process may take the priority it asks for."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NICE)
    may = _has_capability(status, CAP_SYS_NICE) or limit >= 20 - NICE
    return judge(
        "priority",
        ok=may,
        found=f"nice {NICE} allowed" if may else f"nice {NICE} not allowed",
        costs="on a busy machine the load process waits for its turn: more lag, more late reads",
        do="run as root, or grant CAP_SYS_NICE or a nice limit (limits.conf: nice)",
    )


def _has_capability(status: Path, number: int) -> bool:
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.geteuid() == 0
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")]
    return bool(masks) and bool(masks[0] >> number & 1)


def check_slices() -> Check:
    """Whether the scheduler grants short time slices."""
    return judge(
        "time slices",
        ok=ask_for_short_slices(),
        found=f"Linux {os.uname().release}: 0.1 ms asked for",
        costs="on a busy machine the load process wakes later",
        do="Linux 6.12 or later",
    )


def check_port(port: int) -> Check:
    """Whether the default port of `tailbreak serve` is free."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            found, is_free = f"127.0.0.1:{port}: {(error.strerror or str(error)).lower()}", False
        else:
            found, is_free = f"127.0.0.1:{port} is free", True
    return judge(
        "port",
        ok=is_free,
        found=found,
        costs="tailbreak serve does not start there; tailbreak run takes a free port anyway",
        do="tailbreak serve --port 0",
    )
