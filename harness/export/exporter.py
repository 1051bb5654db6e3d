"""`tailbreak exporter`: GPU series beside those of processes and the host, on one page."""

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from harness.base.errors import SetupError
from harness.export.nvml.collector import GpuCollector, MissingCollector
from harness.export.nvml.events import Events
from harness.export.nvml.failure import NvmlMissing
from harness.export.nvml.sampler import Sampler
from harness.export.nvml.session import nvml
from harness.export.page import Page, Piece
from harness.export.process import ProcessCollector, Watched


class ExporterPage:
    """The page, written anew for each scrape; GPUs only once a sample."""

    def __init__(self, gpus: GpuCollector | MissingCollector, watched: Sequence[Watched]) -> None:
        self._gpus = gpus
        self._processes = ProcessCollector(lambda: watched)
        self._page = Page()
        self._lock = threading.Lock()

    def write(self, accept: str) -> tuple[bytes, str]:
        """What a scrape is answered, and its content type."""
        with self._lock:
            pieces = (
                Piece("gpus", self._gpus.version, self._gpus.collect),
                Piece("processes", None, self._processes.collect),
            )
            return self._page.write(pieces, accept)

    def answered(self) -> None:
        """Nothing hangs on who asked."""


@contextmanager
def exporter(
    interval_s: float,
    watched: Sequence[Watched],
    environment: Mapping[str, str],
    *,
    requires_gpu: bool,
) -> Iterator[tuple[ExporterPage, NvmlMissing | None]]:
    """The page while everything is sampled, and why there is no GPU on it, if there is none.

    Raises:
        SetupError: a GPU is required, and there is no NVML, or it shows none.
    """
    try:
        with _gpus(interval_s, environment, requires_gpu=requires_gpu) as gpus:
            yield ExporterPage(gpus, watched), None
    except NvmlMissing as missing:
        if requires_gpu:
            raise
        yield ExporterPage(MissingCollector(missing.reason), watched), missing


@contextmanager
def _gpus(
    interval_s: float, environment: Mapping[str, str], *, requires_gpu: bool
) -> Iterator[GpuCollector]:
    with nvml(environment) as devices:
        if requires_gpu and not devices:
            raise SetupError(
                "no GPU can be read: NVML is there and shows none; CUDA_VISIBLE_DEVICES="
                f"{environment.get('CUDA_VISIBLE_DEVICES', '(not set)')}"
            )
        events = Events(devices)
        sampler = Sampler(devices, events, interval_s)
        events.start()
        sampler.start()
        try:
            yield GpuCollector(sampler, events, socket.gethostname())
        finally:
            sampler.close()
            events.close()
