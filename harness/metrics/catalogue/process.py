"""What is exposed of processes and of the machine they run on."""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import counter, gauge

LABELS: Final = ("process", "pid")

PROCESS_UP: Final = gauge("mc_process_up", "1 while the process lives, 0 once it is gone.", *LABELS)
PROCESS_CPU: Final = counter(
    "mc_process_cpu_seconds_total", "Processor time used.", *LABELS, unit="seconds"
)
PROCESS_RESIDENT: Final = gauge(
    "mc_process_resident_bytes", "Resident memory.", *LABELS, unit="bytes"
)
PROCESS_SWITCHES: Final = counter(
    "mc_process_context_switches_total",
    "Context switches; `kind` is voluntary or involuntary.",
    *LABELS,
    "kind",
)
PROCESS_THREADS: Final = gauge("mc_process_threads", "Threads.", *LABELS)
PROCESS_FILES: Final = gauge("mc_process_open_files", "Open file descriptors.", *LABELS)
PROCESS_FAULTS: Final = counter(
    "mc_process_major_faults_total", "Page faults that had to wait for the disk.", *LABELS
)
HOST_CPU: Final = counter(
    "mc_host_cpu_seconds_total", "Processor time of all cores by `mode`.", "mode", unit="seconds"
)
HOST_MEMORY: Final = gauge(
    "mc_host_memory_available_bytes", "Memory that can be had without swapping.", unit="bytes"
)
HOST_LOAD: Final = gauge("mc_host_load1", "Processes that run or wait to, over a minute.")
HOST_BANDWIDTH: Final = counter(
    "mc_host_memory_traffic_bytes_total",
    "Bytes to and from memory; no series where no counter can be read.",
    "direction",
    unit="bytes",
)
HOST_CORES: Final = gauge("mc_host_cores", "Logical processors this process may use.")
EXPORTER_SCRAPE: Final = counter(
    "mc_exporter_cpu_seconds_total", "Processor time the exporter itself has used.", unit="seconds"
)

PROCESS_METRICS: Final = (
    PROCESS_UP, PROCESS_CPU, PROCESS_RESIDENT, PROCESS_SWITCHES, PROCESS_THREADS, PROCESS_FILES,
    PROCESS_FAULTS, HOST_CPU, HOST_MEMORY, HOST_LOAD, HOST_BANDWIDTH, HOST_CORES, EXPORTER_SCRAPE,
)  # fmt: skip
