"""Memory traffic: absent without counters, scaled and added with them, through real counters."""

import os
from pathlib import Path

import pytest

from harness.export.memory_traffic import MemoryTraffic, _config, _perf_event_open

SOFTWARE, CPU_CLOCK = 1, 0


def device(folder: Path, name: str = "uncore_imc_0", unit: str = "MiB") -> Path:
    """A controller as the kernel shows it, whose events are the software clock of processor 0.

    What it counts is nanoseconds, one `read` for each cache line that a real one would count.
    """
    path = folder / name
    (path / "events").mkdir(parents=True)
    (path / "format").mkdir()
    files = {
        "type": str(SOFTWARE), "cpumask": "0", "format/event": "config:0-7",
        "format/umask": "config:8-15", "events/cas_count_read": f"event={CPU_CLOCK:#x}",
        "events/cas_count_read.scale": "6.103515625e-5", "events/cas_count_read.unit": unit,
    }  # fmt: skip
    for file, text in files.items():
        (path / file).write_text(text + "\n")
    return path


def can_count() -> bool:
    try:
        os.close(_perf_event_open(SOFTWARE, CPU_CLOCK, 0))
    except OSError:
        return False
    return True


needs_counters = pytest.mark.skipif(not can_count(), reason="perf_event_open is not allowed here")


def test_without_controllers_there_is_nothing(tmp_path: Path) -> None:
    """No device, or none that can be understood: no direction, not a zero."""
    assert MemoryTraffic(tmp_path).read() == {}
    device(tmp_path, unit="furlongs")
    assert MemoryTraffic(tmp_path).read() == {}


def test_an_event_is_put_together_from_its_fields(tmp_path: Path) -> None:
    """`event=0x04,umask=0x0f` is 0xf04 by the device's own format; another register is refused."""
    path = device(tmp_path)
    assert _config(path, "event=0x04,umask=0x0f\n") == 0xF04
    (path / "format" / "umask").write_text("config1:0-7\n")
    with pytest.raises(ValueError, match="config1"):
        _config(path, "event=0x04,umask=0x0f")


@needs_counters
def test_counts_are_bytes_and_only_grow(tmp_path: Path) -> None:
    """Each count is 64 bytes (6.1e-5 MiB); two controllers add up; only `read` is there."""
    device(tmp_path)
    traffic = MemoryTraffic(tmp_path)
    first = traffic.read()
    assert set(first) == {"read"}
    second = traffic.read()
    assert second["read"] > first["read"] > 0
    assert second["read"] % 64 == 0
    device(tmp_path, "uncore_imc_1")
    both = MemoryTraffic(tmp_path)
    assert len(both._counters) == 2
    assert {each.bytes_each for each in both._counters} == {64.0}
    traffic.close()
    both.close()
    assert both.read() == {}
