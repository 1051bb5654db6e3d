"""GPM: how busy the parts of a GPU were between two samples (Hopper and newer).

NVML gives percent and MiB/s; DCGM's names want shares and bytes/s. The hardware's counters are
shared with other tools, and samples closer than 100 ms are worth nothing: the sampler keeps apart.
"""

import math
from typing import Any, Final

import pynvml

from harness.export.nvml.device import Device, or_none
from harness.export.nvml.failure import FOR_GOOD, reason_of, require_there
from harness.export.nvml.probes import DCGM, MIB
from harness.export.nvml.value import Value
from harness.metrics.catalogue import gpu
from harness.metrics.catalogue.metric import Metric

PERCENT: Final = 100.0
MEGA: Final = 1 / MIB
METRICS: Final[dict[int, tuple[float, tuple[tuple[Metric, tuple[str, ...]], ...]]]] = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: (PERCENT, ((DCGM["PROF_GR_ENGINE_ACTIVE"], ()),)),
    pynvml.NVML_GPM_METRIC_SM_UTIL: (
        PERCENT,
        ((DCGM["PROF_SM_ACTIVE"], ()), (gpu.GPU_SM_ACTIVE, ())),
    ),
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: (PERCENT, ((DCGM["PROF_SM_OCCUPANCY"], ()),)),
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: (PERCENT, ((DCGM["PROF_PIPE_TENSOR_ACTIVE"], ()),)),
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: (
        PERCENT,
        ((DCGM["PROF_DRAM_ACTIVE"], ()), (gpu.GPU_DRAM_ACTIVE, ("gpm",))),
    ),
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: (
        MEGA,
        ((DCGM["PROF_PCIE_TX_BYTES"], ()), (gpu.PCIE_RATE, ("tx", "gpm"))),
    ),
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: (
        MEGA,
        ((DCGM["PROF_PCIE_RX_BYTES"], ()), (gpu.PCIE_RATE, ("rx", "gpm"))),
    ),
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: (MEGA, ((DCGM["PROF_NVLINK_TX_BYTES"], ()),)),
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: (MEGA, ((DCGM["PROF_NVLINK_RX_BYTES"], ()),)),
}
ALL: Final = tuple(metric for _, series in METRICS.values() for metric, _ in series)


class GpmReader:
    """Keeps the last sample of one device; the next one makes a reading of the time between."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last: Any = None
        self.is_supported = False
        self.reasons: dict[str, str] = {}
        try:
            self.is_supported = bool(
                pynvml.nvmlGpmQueryDeviceSupport(device.parent).isSupportedDevice
            )
            reason = "not supported"
        except pynvml.NVMLError as error:
            require_there(error.value)
            reason = reason_of(error.value)
        if not self.is_supported:
            self._note_all(reason)

    def read(self) -> list[Value]:
        """The time since the last call; nothing at the first one.

        Raises:
            Lost: the GPU is gone.
        """
        if not self.is_supported:
            return []
        try:
            return self._read()
        except pynvml.NVMLError as error:
            require_there(error.value)
            reason = reason_of(error.value)
            self.is_supported = reason not in FOR_GOOD
            self._note_all(reason)
            return []

    def close(self) -> None:
        """Give the sample back."""
        if self._last is not None:
            or_none(pynvml.nvmlGpmSampleFree, self._last)
            self._last = None

    def _read(self) -> list[Value]:
        sample = pynvml.nvmlGpmSampleAlloc()
        try:
            self._take(sample)
        except pynvml.NVMLError:
            pynvml.nvmlGpmSampleFree(sample)
            raise
        last, self._last = self._last, sample
        if last is None:
            return []
        try:
            return self._between(last, sample)
        finally:
            pynvml.nvmlGpmSampleFree(last)

    def _take(self, sample: Any) -> None:
        if self._device.instance is None:
            pynvml.nvmlGpmSampleGet(self._device.handle, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(self._device.parent, self._device.instance, sample)

    def _between(self, first: Any, second: Any) -> list[Value]:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1, asked.sample2 = first, second
        for place, id_ in enumerate(METRICS):
            asked.metrics[place].metricId = id_
        pynvml.nvmlGpmMetricsGet(asked)
        return [
            value
            for place, (scale, series) in enumerate(METRICS.values())
            for value in self._values(asked.metrics[place], scale, series)
        ]

    def _values(
        self, answer: Any, scale: float, series: tuple[tuple[Metric, tuple[str, ...]], ...]
    ) -> list[Value]:
        require_there(answer.nvmlReturn)
        reason = "" if answer.nvmlReturn == pynvml.NVML_SUCCESS else reason_of(answer.nvmlReturn)
        if not reason and math.isnan(answer.value):
            reason = "no data"
        for metric, _ in series:
            self.reasons[metric.name] = reason
        if reason:
            return []
        return [Value(metric, answer.value / scale, labels) for metric, labels in series]

    def _note_all(self, reason: str) -> None:
        self.reasons |= dict.fromkeys((metric.name for metric in ALL), reason)
