"""One read of one device: a frozen record of what could be read, and why the rest could not.

Each metric is a capability of a device: tried once, remembered where it cannot be had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pynvml

from harness.export.nvml.device import Device, or_none, text
from harness.export.nvml.failure import FOR_GOOD, Lost, reason_of, require_there
from harness.export.nvml.fields import FieldReader
from harness.export.nvml.gpm import GpmReader
from harness.export.nvml.probes import PROBES, sampled_pcie
from harness.export.nvml.value import Probe, Value
from harness.metrics.catalogue import gpu

SAMPLED_PCIE: Final = Probe((gpu.PCIE_RATE,), sampled_pcie)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One read of a device.

    Attributes:
        is_up: false once the GPU has fallen off the bus; nothing else is known then.
        values: counters as NVML has them.
        reasons: why a metric cannot be read, by name; empty where it can.
    """

    device: Device
    is_up: bool
    values: tuple[Value, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


class DeviceReader:
    """Reads one device again and again."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._missing: dict[Probe, str] = {}
        self._fields = FieldReader(device)
        self._gpm: GpmReader | None = None
        self._peers: dict[int, str] = {}

    def read(self) -> Reading:
        """Everything that can be read now."""
        if self.device.handle is None:
            return Reading(device=self.device, is_up=False)
        try:
            return self._read()
        except Lost:
            return Reading(device=self.device, is_up=False)

    def close(self) -> None:
        """Give NVML's memory back."""
        if self._gpm is not None:
            self._gpm.close()

    def _read(self) -> Reading:
        reasons: dict[str, str] = {}
        values = [value for probe in PROBES for value in self._ask(probe, reasons)]
        if self.device.instance is None:
            values += [*self._fields.read(), *self._links()]
            reasons |= self._fields.reasons
        if self._gpm is None:
            self._gpm = GpmReader(self.device)
        values += self._gpm.read()
        for name, reason in self._gpm.reasons.items():
            reasons.setdefault(name, reason)
        if not _has(values, gpu.PCIE_BYTES.name) and not self._gpm.is_supported:
            values += self._ask(SAMPLED_PCIE, reasons)
        values = _best(values, has_gpm=self._gpm.is_supported)
        reasons |= {value.metric.name: "" for value in values}
        if _has(values, gpu.PCIE_BYTES.name):
            reasons.pop(gpu.PCIE_RATE.name, None)  # not wanted, which is not the same as missing
        return Reading(device=self.device, is_up=True, values=tuple(values), reasons=reasons)

    def _ask(self, probe: Probe, reasons: dict[str, str]) -> list[Value]:
        """A probe's values; its metrics' reasons are noted."""
        values: list[Value] = []
        reason = self._missing.get(probe, "")
        if not reason:
            try:
                values = list(probe.read(self.device) or ())
            except pynvml.NVMLError as error:
                require_there(error.value)
                reason = reason_of(error.value)
        if reason in FOR_GOOD:
            self._missing[probe] = reason
        given = {value.metric for value in values}
        for metric in probe.metrics:
            if metric not in given:
                reasons[metric.name] = reason or "not supported"
        return values

    def _links(self) -> list[Value]:
        """Which links are up, and what is at their other ends."""
        values = []
        for link in self.device.links:
            state = or_none(pynvml.nvmlDeviceGetNvLinkState, self.device.handle, link)
            if state is not None:
                if link not in self._peers:
                    self._peers[link] = peer_of(self.device, link)
                values.append(Value(gpu.NVLINK_UP, int(state == 1), (str(link), self._peers[link])))
        return values


def peer_of(device: Device, link: int) -> str:
    """PCI address of what is at a link's other end, `switch`, or empty where it is not told."""
    kind = or_none(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, device.handle, link)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return "switch"
    pci = or_none(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, device.handle, link)
    return "" if pci is None else text(pci.busId)


def _has(values: list[Value], name: str) -> bool:
    return any(value.metric.name == name for value in values)


def _best(values: list[Value], *, has_gpm: bool) -> list[Value]:
    """One source for each quantity: counters before rates, GPM before utilisation."""
    has_counter = _has(values, gpu.PCIE_BYTES.name)
    return [
        value
        for value in values
        if not (has_counter and value.metric is gpu.PCIE_RATE)
        and not (has_gpm and value.metric is gpu.GPU_DRAM_ACTIVE and value.labels[0] != "gpm")
    ]
