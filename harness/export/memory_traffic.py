"""Bytes to and from memory, from the memory controllers' own counters where Linux shows them.

Intel's uncore counters say how many cache lines were read and written, for the whole machine. Most
virtual machines, other makers' chips and users without the right to count have none: then there is
nothing to read, which is not zero.

Source: perf_event_open(2); `/sys/bus/event_source/devices`, the kernel's ABI of that name.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

DEVICES: Final = Path("/sys/bus/event_source/devices")
CONTROLLERS: Final = "uncore_imc*"
DIRECTIONS: Final = {
    "cas_count_read": "read", "data_reads": "read", "data_read": "read",
    "cas_count_write": "write", "data_writes": "write", "data_write": "write",
}  # fmt: skip
UNITS: Final = {"MiB": 2**20, "Bytes": 1}
SYSCALL: Final = {"x86_64": 298, "aarch64": 241}
CLOSE_ON_EXEC: Final = 8
NO_PID: Final = -1
NO_GROUP: Final = -1


class _Counter(NamedTuple):
    direction: str
    fd: int
    bytes_each: float


class MemoryTraffic:
    """Every controller's counters, opened once; they count from then on."""

    def __init__(self, devices: Path = DEVICES) -> None:
        self._counters: list[_Counter] = []
        for device in sorted(devices.glob(CONTROLLERS)):
            for event, direction in DIRECTIONS.items():
                try:
                    self._counters += _open(device, event, direction)
                except (OSError, ValueError, KeyError):  # not there, not for us, not understood
                    continue

    def read(self) -> dict[str, float]:
        """Bytes since the start by direction; empty where nothing can be counted."""
        found: dict[str, float] = {}
        for each in self._counters:
            (count,) = struct.unpack("Q", os.read(each.fd, 8))
            found[each.direction] = found.get(each.direction, 0.0) + count * each.bytes_each
        return found

    def close(self) -> None:
        """Stop counting."""
        for each in self._counters:
            os.close(each.fd)
        self._counters.clear()


def _open(device: Path, event: str, direction: str) -> Iterator[_Counter]:
    """The event's counter on each processor that speaks for the device's socket."""
    events = device / "events"
    config = _config(device, (events / event).read_text())
    scale = float((events / f"{event}.scale").read_text())
    bytes_each = scale * UNITS[(events / f"{event}.unit").read_text().strip()]
    kind = int((device / "type").read_text())
    for cpu in (device / "cpumask").read_text().strip().split(","):
        yield _Counter(direction, _perf_event_open(kind, config, int(cpu)), bytes_each)


def _config(device: Path, event: str) -> int:
    """The number behind `event=0x04,umask=0x03`: each field at the bits that `format` names."""
    config = 0
    for field in event.strip().split(","):
        name, _, value = field.partition("=")
        register, _, bits = (device / "format" / name).read_text().strip().partition(":")
        if register != "config":
            raise ValueError(f"{field}: in {register}")
        config |= int(value, 0) << int(bits.partition("-")[0])
    return config


def _perf_event_open(kind: int, config: int, cpu: int) -> int:
    """A descriptor that counts this event of everybody on this processor."""
    attributes = struct.pack("IIQQQQQIIQ", kind, 64, config, 0, 0, 0, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    number = SYSCALL[os.uname().machine]
    fd: int = libc.syscall(number, attributes, NO_PID, cpu, NO_GROUP, CLOSE_ON_EXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    return fd
