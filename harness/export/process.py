"""Processes and the machine they run on, read when somebody asks.

A process that is gone has `mc_process_up 0` and nothing else; a value that the system does not
give, or not to us, has no series. Used by the run's exporter and by `tailbreak exporter`.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from harness.export.family import Point, families
from harness.export.memory_traffic import MemoryTraffic
from harness.metrics.catalogue import process as catalogue
from harness.metrics.catalogue.metric import Metric

CPU_MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Guests' time is left out: it is part of `user` and `nice`."""


class Watched(NamedTuple):
    """A process of interest: what it is called on a board, and its number."""

    name: str
    pid: int


class ProcessCollector(Collector):
    """Reads the processes that `watched` names at each scrape, the host, and this process."""

    def __init__(self, watched: Callable[[], Iterable[Watched]]) -> None:
        self._watched = watched
        self._known: dict[Watched, psutil.Process | None] = {}
        self._traffic = MemoryTraffic()

    def collect(self) -> Iterator[Family]:
        """Everything that can be read now."""
        points: dict[Metric, list[Point]] = {each: [] for each in catalogue.PROCESS_METRICS}
        for each in dict.fromkeys(self._watched()):
            for metric, values, value in _of_process(self._process(each)):
                points[metric].append(Point((each.name, str(each.pid), *values), value))
        for metric, values, value in _of_host():
            points[metric].append(Point(values, value))
        for direction, n_bytes in self._traffic.read().items():
            points[catalogue.HOST_BANDWIDTH].append(Point((direction,), n_bytes))
        yield from families(points)

    def describe(self) -> Iterator[Family]:
        """Nothing: what there is depends on the system."""
        return iter(())

    def _process(self, each: Watched) -> psutil.Process | None:
        """The process that had this number first: a later owner of the number is another."""
        if each not in self._known:
            try:
                self._known[each] = psutil.Process(each.pid)
            except psutil.Error:
                self._known[each] = None
        return self._known[each]


Reading = tuple[Metric, tuple[str, ...], float]
"""A metric, the labels beyond those of its process, and the value."""


def _of_process(process: psutil.Process | None) -> Iterator[Reading]:
    if process is None or not _is_alive(process):
        yield catalogue.PROCESS_UP, (), 0
        return
    yield catalogue.PROCESS_UP, (), 1
    for read in (_times, _memory, _switches, _threads, _files, _faults):
        try:
            yield from list(read(process))
        except (psutil.Error, OSError, AttributeError, NotImplementedError):
            continue  # it ended meanwhile, is another user's, or the system does not say


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _times(process: psutil.Process) -> Iterator[Reading]:
    times = process.cpu_times()
    yield catalogue.PROCESS_CPU, (), times.user + times.system


def _memory(process: psutil.Process) -> Iterator[Reading]:
    yield catalogue.PROCESS_RESIDENT, (), process.memory_info().rss


def _switches(process: psutil.Process) -> Iterator[Reading]:
    switches = process.num_ctx_switches()
    yield catalogue.PROCESS_SWITCHES, ("voluntary",), switches.voluntary
    yield catalogue.PROCESS_SWITCHES, ("involuntary",), switches.involuntary


def _threads(process: psutil.Process) -> Iterator[Reading]:
    yield catalogue.PROCESS_THREADS, (), process.num_threads()


def _files(process: psutil.Process) -> Iterator[Reading]:
    yield catalogue.PROCESS_FILES, (), process.num_fds()


def _faults(process: psutil.Process) -> Iterator[Reading]:
    """Field 12 of `/proc/PID/stat`; the name before it may hold spaces and brackets."""
    stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    yield catalogue.PROCESS_FAULTS, (), int(stat.rpartition(")")[2].split()[9])


def _of_host() -> Iterator[Reading]:
    times = psutil.cpu_times()
    for mode in CPU_MODES:
        if hasattr(times, mode):
            yield catalogue.HOST_CPU, (mode,), getattr(times, mode)
    yield catalogue.HOST_MEMORY, (), psutil.virtual_memory().available
    yield catalogue.HOST_LOAD, (), os.getloadavg()[0]
    yield catalogue.HOST_CORES, (), _n_cores()
    yield catalogue.EXPORTER_SCRAPE, (), time.process_time()


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
