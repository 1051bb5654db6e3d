"""The process collector: values against what the process did, absence where nothing can be read."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from harness.export.process import ProcessCollector, Watched
from tests.exposition import Labels, Samples, labels, read_samples, written
from tests.prometheus_process import needs_prometheus, promtool


def registry(*watched: Watched) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(ProcessCollector(lambda: watched))
    return found


def samples(found: CollectorRegistry) -> Samples:
    return read_samples(written(found))


def of(name: str, pid: int, **more: str) -> Labels:
    return labels(process=name, pid=str(pid), **more)


def test_own_process_is_told_as_the_system_tells_it() -> None:
    """Processor time, memory, threads, files and switches are this process's own, in base units."""
    me = Watched("me", os.getpid())
    before, process = time.process_time(), psutil.Process()
    found = samples(registry(me))
    mine = of("me", me.pid)
    assert found["mc_process_up", mine] == 1
    used = found["mc_process_cpu_seconds_total", mine]
    assert before - 0.05 <= used <= time.process_time() + 0.05
    resident = found["mc_process_resident_bytes", mine]
    assert resident == pytest.approx(process.memory_info().rss, rel=0.2)
    assert found["mc_process_threads", mine] == process.num_threads()
    assert abs(found["mc_process_open_files", mine] - process.num_fds()) <= 2
    switches = found["mc_process_context_switches_total", of("me", me.pid, kind="voluntary")]
    assert 0 <= switches <= process.num_ctx_switches().voluntary
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    assert faults - 2 <= found["mc_process_major_faults_total", mine] <= faults


def test_processor_time_grows_by_what_was_used() -> None:
    """The counter's growth is the time that a busy loop used, in seconds."""
    found = registry(Watched("me", os.getpid()))
    mine = of("me", os.getpid())
    first, began = samples(found), time.process_time()
    while time.process_time() - began < 0.3:
        pass
    grown = samples(found)["mc_process_cpu_seconds_total", mine]
    grown -= first["mc_process_cpu_seconds_total", mine]
    assert 0.25 <= grown <= time.process_time() - began + 0.1


def test_a_process_that_is_gone_is_down_and_nothing_else() -> None:
    """A process that ended has `up 0` and no other series, also while nobody has waited for it."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        found = registry(Watched("child", child.pid))
        mine = of("child", child.pid)
        assert samples(found)["mc_process_up", mine] == 1
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
        told = {name for name, its in samples(found) if its == mine}
        assert told == {"mc_process_up"}
        assert samples(found)["mc_process_up", mine] == 0
    assert samples(found)["mc_process_up", mine] == 0


def test_a_number_that_never_was_is_down() -> None:
    """A number that no process has is down, not an error."""
    assert (
        samples(registry(Watched("none", 2**22 - 1)))["mc_process_up", of("none", 2**22 - 1)] == 0
    )


def test_the_host_is_told_as_the_system_tells_it() -> None:
    """Processor time by mode, memory and cores are the system's."""
    found = samples(registry())
    times = psutil.cpu_times()
    assert found["mc_host_cpu_seconds_total", labels(mode="idle")] == pytest.approx(
        times.idle, rel=0.01
    )
    assert found["mc_host_memory_available_bytes", labels()] == pytest.approx(
        psutil.virtual_memory().available, rel=0.2
    )
    assert found["mc_host_cores", labels()] == len(os.sched_getaffinity(0))
    assert 0 < found["mc_exporter_cpu_seconds_total", labels()] <= time.process_time()


def test_memory_traffic_has_no_series_without_counters() -> None:
    """Where the kernel shows no memory controller there is no traffic series, not a zero."""
    if any(Path("/sys/bus/event_source/devices").glob("uncore_imc*")):
        pytest.skip("this machine shows its memory controllers")
    assert not [name for name, _ in samples(registry()) if "memory_traffic" in name]


@needs_prometheus
def test_promtool_finds_nothing_wrong() -> None:
    """The text that Prometheus is given passes `promtool check metrics`."""
    text = generate_latest(registry(Watched("me", os.getpid()))).decode()
    checked = promtool("check", "metrics", text=text)
    assert checked.returncode == 0, checked.stdout + checked.stderr
