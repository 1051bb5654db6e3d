"""What is exposed of GPUs: dcgm-exporter's names, labels and units, and twins in base units.

Names in capitals are the ones that dcgm-exporter's users have boards for; their units are its own
(MHz, MiB, mJ). The `mc_gpu_*` twins use base units. A value that cannot be read has no series.
"""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import Metric, MetricType, counter, gauge

DCGM_LABELS: Final = (
    "gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "hostname",
)  # fmt: skip
"""dcgm-exporter's, in its order; the two of MIG are empty for a whole GPU."""
GPU: Final = ("gpu", "uuid")
LINK: Final = (*GPU, "nvlink")

_DCGM: Final[tuple[tuple[MetricType, str, str], ...]] = (
    ("gauge", "DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz)."),
    ("gauge", "DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz)."),
    ("gauge", "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
    ("gauge", "DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C)."),
    ("gauge", "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)."),
    ("counter", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since boot (in mJ)."),
    ("counter", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries."),
    ("gauge", "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
    ("gauge", "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %)."),
    ("gauge", "DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %)."),
    ("gauge", "DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %)."),
    ("gauge", "DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
    ("gauge", "DCGM_FI_DEV_FB_FREE", "Frame buffer memory free (in MiB)."),
    ("gauge", "DCGM_FI_DEV_FB_USED", "Frame buffer memory used (in MiB)."),
    ("gauge", "DCGM_FI_DEV_FB_RESERVED", "Frame buffer memory reserved (in MiB)."),
    ("counter", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "NVLink traffic of all lanes (in KiB)."),
    (
        "counter",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Rows remapped for uncorrectable errors.",
    ),
    ("counter", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped for correctable errors."),
    ("gauge", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed."),
    ("gauge", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Share of time the graphics engine is active."),
    ("gauge", "DCGM_FI_PROF_SM_ACTIVE", "Share of cycles an SM has a warp assigned."),
    ("gauge", "DCGM_FI_PROF_SM_OCCUPANCY", "Share of resident warps on an SM."),
    ("gauge", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Share of cycles the tensor pipe is active."),
    ("gauge", "DCGM_FI_PROF_DRAM_ACTIVE", "Share of cycles the memory interface is active."),
    ("gauge", "DCGM_FI_PROF_PCIE_TX_BYTES", "PCIe bytes sent per second."),
    ("gauge", "DCGM_FI_PROF_PCIE_RX_BYTES", "PCIe bytes received per second."),
    ("gauge", "DCGM_FI_PROF_NVLINK_TX_BYTES", "NVLink bytes sent per second."),
    ("gauge", "DCGM_FI_PROF_NVLINK_RX_BYTES", "NVLink bytes received per second."),
)
DCGM_METRICS: Final = tuple(
    Metric(name=name, type=kind, help=text, labels=DCGM_LABELS) for kind, name, text in _DCGM
)

EXPORTER_UP: Final = gauge(
    "gpu_exporter_up",
    "1 while NVML answers, 0 where it is missing or failed; `reason` says why.",
    "reason",
)
GPU_UP: Final = gauge(
    "mc_gpu_up", "1 while the GPU answers, 0 once it has fallen off the bus.", *GPU
)
GPU_SUPPORTED: Final = gauge(
    "mc_gpu_metric_supported",
    "1 where a metric can be read on this GPU, 0 where it cannot, and why.",
    *GPU,
    "metric",
    "reason",
)
GPU_UTILISATION: Final = gauge(
    "mc_gpu_utilisation_ratio",
    "Share of time at which any kernel ran: not how busy it kept the GPU.",
    *GPU,
    unit="ratio",
)
GPU_SM_ACTIVE: Final = gauge(
    "mc_gpu_sm_active_ratio",
    "Share of cycles an SM had work (Hopper and newer).",
    *GPU,
    unit="ratio",
)
GPU_DRAM_ACTIVE: Final = gauge(
    "mc_gpu_dram_active_ratio",
    "Share of cycles the memory interface was busy; `source` is gpm or utilisation.",
    *GPU,
    "source",
    unit="ratio",
)
GPU_MEMORY: Final = gauge(
    "mc_gpu_memory_bytes", "Memory by `state`: used, free, reserved.", *GPU, "state", unit="bytes"
)
GPU_POWER: Final = gauge("mc_gpu_power_watts", "Power draw.", *GPU, unit="watts")
GPU_POWER_LIMIT: Final = gauge(
    "mc_gpu_power_limit_watts", "Power limit that is enforced.", *GPU, unit="watts"
)
GPU_ENERGY: Final = counter("mc_gpu_energy_joules_total", "Energy since boot.", *GPU, unit="joules")
GPU_TEMPERATURE: Final = gauge(
    "mc_gpu_temperature_celsius", "Temperature of the `sensor`.", *GPU, "sensor", unit="celsius"
)
GPU_CLOCK: Final = gauge(
    "mc_gpu_clock_hertz", "Frequency of the `clock`: sm, memory.", *GPU, "clock", unit="hertz"
)
GPU_THROTTLE: Final = gauge(
    "mc_gpu_throttled", "1 while the clocks are held down for this reason, else 0.", *GPU, "reason"
)
HARMLESS_THROTTLES: Final = ("gpu_idle", "applications_clocks", "sync_boost", "display_clock")
"""Reasons that hold clocks down as somebody set them, or because there is nothing to do."""
POWER_CAP: Final = "sw_power_cap"
"""Holds clocks down at full load on most GPUs: shown, and alone no trouble."""
GPU_PSTATE: Final = gauge("mc_gpu_performance_state", "Performance state, 0 the fastest.", *GPU)
GPU_ECC: Final = counter(
    "mc_gpu_ecc_errors_total",
    "Memory errors since the driver was loaded by `kind`: corrected, uncorrected.",
    *GPU,
    "kind",
)
GPU_XID: Final = counter(
    "mc_gpu_xid_errors_total", "XID errors seen since the exporter started, by code.", *GPU, "xid"
)
GPU_EVENTS: Final = counter(
    "mc_gpu_events_total",
    "Events seen since the exporter started: xid, pstate, clock, ecc, lost.",
    *GPU,
    "event",
)
NVLINK_BYTES: Final = counter(
    "mc_gpu_nvlink_bytes_total",
    "Bytes over one NVLink by `direction`.",
    *LINK,
    "direction",
    unit="bytes",
)
NVLINK_ERRORS: Final = counter(
    "mc_gpu_nvlink_errors_total",
    "Errors of one NVLink by `kind`: replay, recovery, crc.",
    *LINK,
    "kind",
)
NVLINK_UP: Final = gauge(
    "mc_gpu_nvlink_up",
    "1 while the link is active; `peer` is the GPU or switch at its other end.",
    *LINK,
    "peer",
)
PCIE_BYTES: Final = counter(
    "mc_gpu_pcie_bytes_total", "Bytes over PCIe by `direction`.", *GPU, "direction", unit="bytes"
)
PCIE_RATE: Final = gauge(
    "mc_gpu_pcie_bytes_per_second",
    "PCIe traffic where only a rate can be read; `source` says how.",
    *GPU,
    "direction",
    "source",
    unit="bytes_per_second",
)
PCIE_REPLAYS: Final = counter("mc_gpu_pcie_replays_total", "PCIe retries.", *GPU)
GPU_COUNTER_RESETS: Final = counter(
    "mc_gpu_counter_resets_total",
    "Counters that went back; no rate is made over such a moment.",
    *GPU,
    "metric",
)

GPU_METRICS: Final = (
    EXPORTER_UP, GPU_UP, GPU_SUPPORTED, GPU_UTILISATION, GPU_SM_ACTIVE, GPU_DRAM_ACTIVE, GPU_MEMORY,
    GPU_POWER, GPU_POWER_LIMIT, GPU_ENERGY, GPU_TEMPERATURE, GPU_CLOCK, GPU_THROTTLE, GPU_PSTATE,
    GPU_ECC, GPU_XID, GPU_EVENTS, NVLINK_BYTES, NVLINK_ERRORS, NVLINK_UP, PCIE_BYTES, PCIE_RATE,
    PCIE_REPLAYS, GPU_COUNTER_RESETS,
)  # fmt: skip
