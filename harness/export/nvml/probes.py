"""What one call of NVML gives of a GPU, in the catalogue's units.

NVML speaks in percent, milliwatts, millijoules, megahertz and bytes; `DCGM_*` keep their own units.
What needs fields or two samples is in `fields` and `gpm`.
"""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from harness.export.nvml.device import Device
from harness.export.nvml.value import Probe, Value
from harness.metrics.catalogue import gpu
from harness.metrics.catalogue.metric import Metric

DCGM: Final = {metric.name.removeprefix("DCGM_FI_"): metric for metric in gpu.DCGM_METRICS}
MIB: Final = 2**20
VOLATILE: Final = pynvml.NVML_VOLATILE_ECC
UNKNOWN: Final = (
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_ArgumentVersionMismatch,
)
"""An older call may still do."""
THROTTLE_REASONS: Final = {
    "gpu_idle": pynvml.nvmlClocksThrottleReasonGpuIdle,
    "applications_clocks": pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting,
    "sw_power_cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "sync_boost": pynvml.nvmlClocksThrottleReasonSyncBoost,
    "sw_thermal": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "display_clock": pynvml.nvmlClocksThrottleReasonDisplayClockSetting,
}


def _first(handle: Any, *calls: Callable[[Any], Any]) -> Any:
    """What the first call that this driver knows gives; the last one's error else."""
    for call in calls[:-1]:
        try:
            return call(handle)
        except UNKNOWN:
            continue
    return calls[-1](handle)


def _utilisation(device: Device) -> list[Value]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(device.handle)
    return [
        Value(gpu.GPU_UTILISATION, rates.gpu / 100),
        Value(gpu.GPU_DRAM_ACTIVE, rates.memory / 100, ("utilisation",)),
        Value(DCGM["DEV_GPU_UTIL"], rates.gpu),
        Value(DCGM["DEV_MEM_COPY_UTIL"], rates.memory),
    ]


def _encoder(device: Device) -> list[Value]:
    return [Value(DCGM["DEV_ENC_UTIL"], pynvml.nvmlDeviceGetEncoderUtilization(device.handle)[0])]


def _decoder(device: Device) -> list[Value]:
    return [Value(DCGM["DEV_DEC_UTIL"], pynvml.nvmlDeviceGetDecoderUtilization(device.handle)[0])]


def _memory(device: Device) -> list[Value]:
    """The older call counts what is reserved as used, and does not tell it."""
    memory = _first(device.handle, _memory_v2, pynvml.nvmlDeviceGetMemoryInfo)
    states = [state for state in ("used", "free", "reserved") if hasattr(memory, state)]
    return [
        value
        for state in states
        for value in (
            Value(gpu.GPU_MEMORY, getattr(memory, state), (state,)),
            Value(DCGM[f"DEV_FB_{state.upper()}"], getattr(memory, state) / MIB),
        )
    ]


def _memory_v2(handle: Any) -> Any:
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def _power(device: Device) -> list[Value]:
    watts = pynvml.nvmlDeviceGetPowerUsage(device.handle) / 1e3
    return [Value(gpu.GPU_POWER, watts), Value(DCGM["DEV_POWER_USAGE"], watts)]


def _power_limit(device: Device) -> list[Value]:
    limit = pynvml.nvmlDeviceGetEnforcedPowerLimit(device.handle)
    return [Value(gpu.GPU_POWER_LIMIT, limit / 1e3)]


def _energy(device: Device) -> list[Value]:
    millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(device.handle)
    return [
        Value(gpu.GPU_ENERGY, millijoules / 1e3),
        Value(DCGM["DEV_TOTAL_ENERGY_CONSUMPTION"], millijoules),
    ]


def _temperature(device: Device) -> list[Value]:
    celsius = pynvml.nvmlDeviceGetTemperature(device.handle, pynvml.NVML_TEMPERATURE_GPU)
    return [
        Value(gpu.GPU_TEMPERATURE, celsius, ("gpu",)),
        Value(DCGM["DEV_GPU_TEMP"], celsius),
    ]


def _sm_clock(device: Device) -> list[Value]:
    return _clock(device, pynvml.NVML_CLOCK_SM, "sm", DCGM["DEV_SM_CLOCK"])


def _memory_clock(device: Device) -> list[Value]:
    return _clock(device, pynvml.NVML_CLOCK_MEM, "memory", DCGM["DEV_MEM_CLOCK"])


def _clock(device: Device, which: int, name: str, dcgm: Metric) -> list[Value]:
    megahertz = pynvml.nvmlDeviceGetClockInfo(device.handle, which)
    return [Value(gpu.GPU_CLOCK, megahertz * 1e6, (name,)), Value(dcgm, megahertz)]


def _throttle(device: Device) -> list[Value]:
    """Reasons that this GPU knows; newer drivers call them clock event reasons."""
    supported = _first(
        device.handle,
        pynvml.nvmlDeviceGetSupportedClocksEventReasons,
        pynvml.nvmlDeviceGetSupportedClocksThrottleReasons,
    )
    current = _first(
        device.handle,
        pynvml.nvmlDeviceGetCurrentClocksEventReasons,
        pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
    )
    return [
        Value(gpu.GPU_THROTTLE, int(bool(current & bit)), (reason,))
        for reason, bit in THROTTLE_REASONS.items()
        if supported & bit
    ]


def _pstate(device: Device) -> list[Value]:
    state = pynvml.nvmlDeviceGetPerformanceState(device.handle)
    return [Value(gpu.GPU_PSTATE, state)] if state != pynvml.NVML_PSTATE_UNKNOWN else []


def _rows(device: Device) -> list[Value]:
    corrected, uncorrected, _, failed = pynvml.nvmlDeviceGetRemappedRows(device.handle)
    return [
        Value(DCGM["DEV_CORRECTABLE_REMAPPED_ROWS"], corrected),
        Value(DCGM["DEV_UNCORRECTABLE_REMAPPED_ROWS"], uncorrected),
        Value(DCGM["DEV_ROW_REMAP_FAILURE"], failed),
    ]


def _ecc(device: Device) -> list[Value]:
    kinds = {
        "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    }
    return [
        Value(
            gpu.GPU_ECC, pynvml.nvmlDeviceGetTotalEccErrors(device.handle, kind, VOLATILE), (name,)
        )
        for name, kind in kinds.items()
    ]


PROBES: Final = (
    Probe((gpu.GPU_UTILISATION, DCGM["DEV_GPU_UTIL"], DCGM["DEV_MEM_COPY_UTIL"]), _utilisation),
    Probe((DCGM["DEV_ENC_UTIL"],), _encoder),
    Probe((DCGM["DEV_DEC_UTIL"],), _decoder),
    Probe(
        (gpu.GPU_MEMORY, *(DCGM[f"DEV_FB_{state}"] for state in ("USED", "FREE", "RESERVED"))),
        _memory,
    ),
    Probe((gpu.GPU_POWER, DCGM["DEV_POWER_USAGE"]), _power),
    Probe((gpu.GPU_POWER_LIMIT,), _power_limit),
    Probe((gpu.GPU_ENERGY, DCGM["DEV_TOTAL_ENERGY_CONSUMPTION"]), _energy),
    Probe((gpu.GPU_TEMPERATURE, DCGM["DEV_GPU_TEMP"]), _temperature),
    Probe((gpu.GPU_CLOCK, DCGM["DEV_SM_CLOCK"]), _sm_clock),
    Probe((DCGM["DEV_MEM_CLOCK"],), _memory_clock),
    Probe((gpu.GPU_THROTTLE,), _throttle),
    Probe((gpu.GPU_PSTATE,), _pstate),
    Probe(
        (
            DCGM["DEV_CORRECTABLE_REMAPPED_ROWS"],
            DCGM["DEV_UNCORRECTABLE_REMAPPED_ROWS"],
            DCGM["DEV_ROW_REMAP_FAILURE"],
        ),
        _rows,
    ),
    Probe((gpu.GPU_ECC,), _ecc),
)


def sampled_pcie(device: Device) -> list[Value]:
    """Traffic over a window of milliseconds, in KiB/s: the last resort, each call takes as long."""
    directions = {"tx": pynvml.NVML_PCIE_UTIL_TX_BYTES, "rx": pynvml.NVML_PCIE_UTIL_RX_BYTES}
    return [
        Value(
            gpu.PCIE_RATE,
            1024 * pynvml.nvmlDeviceGetPcieThroughput(device.handle, which),
            (direction, "sampled"),
        )
        for direction, which in directions.items()
    ]
