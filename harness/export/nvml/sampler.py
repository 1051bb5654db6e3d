"""Reads every device once an interval, in a thread of its own: a scrape never waits for NVML.

The newest snapshot is handed over whole. Below 100 ms the hardware's counters cannot be trusted;
below 250 ms several tools that sample at once disturb each other.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pynvml

from harness.export.nvml.counters import Counters
from harness.export.nvml.device import Device
from harness.export.nvml.events import Events
from harness.export.nvml.failure import reason_of
from harness.export.nvml.probes import DCGM
from harness.export.nvml.reader import DeviceReader, Reading
from harness.export.nvml.value import Value
from harness.metrics.catalogue import gpu

FLOOR_S: Final = 0.1
POLITE_S: Final = 0.25
KIB: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What was read of all devices at one time.

    Attributes:
        taken_ns: monotonic clock.
        readings: counters are totals that never go back.
        resets: intervals dropped because a counter went back, by (uuid, metric).
        reason: why nothing could be read; empty where it could.
    """

    taken_ns: int
    readings: tuple[Reading, ...] = ()
    resets: tuple[tuple[tuple[str, str], int], ...] = ()
    reason: str = ""


class Sampler:
    """Takes snapshots of the devices; `latest` is the newest."""

    def __init__(self, devices: Sequence[Device], events: Events, interval_s: float) -> None:
        self._readers = [DeviceReader(device) for device in devices]
        self._events = events
        self._counters = Counters()
        self._up = {device.uuid: device.handle is not None for device in devices}
        self._stopped = threading.Event()
        self.interval_s = interval_s
        self.latest = self.sample()
        self._thread = threading.Thread(target=self._run, name="nvml-sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; a call of NVML that hangs is left behind."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * self.interval_s + 1)
        for reader in self._readers:
            reader.close()

    def sample(self) -> Snapshot:
        """One snapshot, now."""
        taken = time.monotonic_ns()
        try:
            readings = tuple(self._total(reader.read()) for reader in self._readers)
        except pynvml.NVMLError as error:  # NVML itself has gone, not one value of it
            return Snapshot(taken_ns=taken, reason=reason_of(error.value))
        for reading in readings:
            self._note_lost(reading)
        resets = tuple(self._counters.resets.items())
        return Snapshot(taken_ns=taken, readings=readings, resets=resets)

    def _run(self) -> None:
        while not self._stopped.wait(self.interval_s):
            self.latest = self.sample()

    def _total(self, reading: Reading) -> Reading:
        """The reading with totals in place of raw counters."""
        uuid = reading.device.uuid
        values = [
            self._advance(uuid, value) if value.metric.type == "counter" else value
            for value in reading.values
        ]
        sums = _nvlink_total(values)
        reasons = {**reading.reasons, **{value.metric.name: "" for value in sums}}
        return replace(reading, values=(*values, *sums), reasons=reasons)

    def _advance(self, uuid: str, value: Value) -> Value:
        total = self._counters.advance(uuid, value.metric.name, value.labels, value.value)
        return Value(value.metric, total, value.labels)

    def _note_lost(self, reading: Reading) -> None:
        uuid = reading.device.uuid
        if self._up[uuid] and not reading.is_up:
            self._events.note_lost(uuid)
        self._up[uuid] = reading.is_up


def _nvlink_total(values: list[Value]) -> list[Value]:
    """dcgm-exporter's sum over all links and both directions, in KiB."""
    parts = [value.value for value in values if value.metric is gpu.NVLINK_BYTES]
    metric = DCGM["DEV_NVLINK_BANDWIDTH_TOTAL"]
    return [Value(metric, sum(parts) / KIB)] if parts else []
