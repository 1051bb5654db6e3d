"""XID errors, P-state changes and the like, counted as NVML tells them, by one waiting thread."""

import ctypes
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pynvml

from harness.export.nvml.device import Device, or_none
from harness.export.nvml.failure import Lost

KINDS: Final = {
    "xid": pynvml.nvmlEventTypeXidCriticalError,
    "pstate": pynvml.nvmlEventTypePState,
    "clock": pynvml.nvmlEventTypeClock,
    "ecc": pynvml.nvmlEventTypeSingleBitEccError | pynvml.nvmlEventTypeDoubleBitEccError,
}
WAIT_MS: Final = 200
PAUSE_S: Final = 1.0


class Events:
    """Counts by GPU and kind since `start`."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._gpus = {
            _address(device.handle): device
            for device in devices
            if device.handle is not None and device.instance is None
        }
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._xids: Counter[tuple[str, int]] = Counter()
        self._last_xid: dict[str, int] = {}
        self._stopped = threading.Event()
        self._set = pynvml.nvmlEventSetCreate()
        for device in self._gpus.values():
            self._register(device)
        self._thread = threading.Thread(target=self._wait, name="nvml-events", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and give the set back."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        or_none(pynvml.nvmlEventSetFree, self._set)

    def note_lost(self, uuid: str) -> None:
        """A GPU has fallen off the bus."""
        with self._lock:
            self._counts[uuid, "lost"] += 1

    def counts(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, int], int]]:
        """Events by (uuid, kind), zeros of kinds that are told included; XIDs by (uuid, code)."""
        with self._lock:
            return dict(self._counts), dict(self._xids)

    def last_xid(self, uuid: str) -> int | None:
        """Code of the last XID, 0 without one; None where the GPU does not tell XIDs."""
        with self._lock:
            return self._last_xid.get(uuid)

    def _register(self, device: Device) -> None:
        self._counts[device.uuid, "lost"] = 0
        try:
            supported = or_none(pynvml.nvmlDeviceGetSupportedEventTypes, device.handle) or 0
            told = {kind: bits & supported for kind, bits in KINDS.items() if bits & supported}
            pynvml.nvmlDeviceRegisterEvents(device.handle, sum(told.values()), self._set)
        except (pynvml.NVMLError, Lost):
            return
        self._counts.update(dict.fromkeys(((device.uuid, kind) for kind in told), 0))
        if "xid" in told:
            self._last_xid[device.uuid] = 0

    def _wait(self) -> None:
        while not self._stopped.is_set():
            try:
                self._note(pynvml.nvmlEventSetWait_v2(self._set, WAIT_MS))
            except pynvml.NVMLError_Timeout:
                continue
            except pynvml.NVMLError:  # a lost GPU may end every wait at once
                self._stopped.wait(PAUSE_S)

    def _note(self, event: Any) -> None:
        device = self._gpus.get(_address(event.device))
        kind = next((kind for kind, bits in KINDS.items() if bits & event.eventType), None)
        if device is None or kind is None:
            return
        with self._lock:
            self._counts[device.uuid, kind] += 1
            if kind == "xid":
                self._xids[device.uuid, event.eventData] += 1
                self._last_xid[device.uuid] = event.eventData


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
