"""The GPU exporter on fake GPUs: processor time of a sample and of a scrape, over their number.

The fake's own work is part of a sample; what a real driver's calls cost is not known here.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.export.exporter import ExporterPage
from harness.export.nvml.collector import GpuCollector
from harness.export.nvml.events import Events
from harness.export.nvml.sampler import Sampler
from harness.export.nvml.session import nvml
from tests.nvml.fake import TWO_RINGS, loaded
from tools.bench_server.table import Table

N_GPUS: Final = (1, 4, 8)
N_REPEATS: Final = 20
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0"


def measure_gpus(n_blocks: int) -> Table:
    """The table: a share of one core at a sample a second, and at a scrape a second."""
    table = Table(
        "gpu_exporter",
        f"GPU exporter, one sample and one scrape a second: % of one core (median of {n_blocks})",
        ("fake GPUs", "page in MB", "sample", "scrape"),
    )
    for n_gpus in N_GPUS:
        table.add(n_gpus, *_measure(n_gpus, n_blocks))
    return table


def _measure(n_gpus: int, n_blocks: int) -> tuple[str, str, str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        loaded(_healthy(Path(folder), n_gpus), Path(folder) / "clock") as clock,
        nvml({}) as devices,
    ):
        clock.set(1)
        events = Events(devices)
        sampler = Sampler(devices, events, 1.0)
        page = ExporterPage(GpuCollector(sampler, events, os.uname().nodename), [])

        def sample() -> None:
            sampler.latest = sampler.sample()

        def scrape() -> int:
            return len(page.write(OPENMETRICS)[0])

        times = [(_once(sample), _once(scrape)) for _ in range(N_REPEATS * n_blocks)]
        size = scrape()
        sampler.close()
        events.close()
    sampled, scraped = (f"{100 * statistics.median(each):.2f}" for each in zip(*times, strict=True))
    return f"{size / 1e6:.2f}", sampled, scraped


def _healthy(folder: Path, n_gpus: int) -> Path:
    """The scenario of the two rings with fewer GPUs and without what happens to them."""
    lines = TWO_RINGS.read_text().splitlines()
    path = folder / "scenario.txt"
    kept = [line for line in lines if not line.startswith(("event", "gpus", "6 fails"))]
    path.write_text("\n".join((f"gpus {n_gpus}", *kept)))
    return path


def _once(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
