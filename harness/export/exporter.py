"""`tailbreak exporter`: GPU series beside those of processes and the host, in one registry."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from harness.base.errors import SetupError
from harness.export.nvml.collector import GpuCollector, MissingCollector
from harness.export.nvml.events import Events
from harness.export.nvml.failure import NvmlMissing
from harness.export.nvml.sampler import Sampler
from harness.export.nvml.session import nvml
from harness.export.process import ProcessCollector, Watched


@contextmanager
def exporter(
    interval_s: float,
    watched: Sequence[Watched],
    environment: Mapping[str, str],
    *,
    requires_gpu: bool,
) -> Iterator[tuple[CollectorRegistry, NvmlMissing | None]]:
    """The registry while everything is sampled, and why there is no GPU in it, if there is none.

    Raises:
        SetupError: a GPU is required, and there is no NVML, or it shows none.
    """
    registry = CollectorRegistry()
    registry.register(ProcessCollector(lambda: watched))
    try:
        with _gpus(registry, interval_s, environment, requires_gpu=requires_gpu):
            yield registry, None
    except NvmlMissing as missing:
        if requires_gpu:
            raise
        registry.register(MissingCollector(missing.reason))
        yield registry, missing


@contextmanager
def _gpus(
    registry: CollectorRegistry,
    interval_s: float,
    environment: Mapping[str, str],
    *,
    requires_gpu: bool,
) -> Iterator[None]:
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
            registry.register(GpuCollector(sampler, events, socket.gethostname()))
            yield
        finally:
            sampler.close()
            events.close()
