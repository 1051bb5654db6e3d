"""NVML, opened: its devices and their readers, closed again at the end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pynvml

from harness.export.nvml.device import Device, read_devices
from harness.export.nvml.failure import NvmlMissing, reason_of
from harness.export.nvml.visible import visible


@contextmanager
def nvml(environment: Mapping[str, str]) -> Iterator[tuple[Device, ...]]:
    """The devices that this environment lets a program see, while NVML is open.

    Raises:
        NvmlMissing: there is no NVML, or it cannot be used.
        SetupError: CUDA_VISIBLE_DEVICES cannot be joined with NVML's order.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlMissing(reason_of(error.value)) from error
    try:
        yield visible(_devices(), environment)
    finally:
        pynvml.nvmlShutdown()


def _devices() -> tuple[Device, ...]:
    try:
        return read_devices()
    except pynvml.NVMLError as error:
        raise NvmlMissing(reason_of(error.value)) from error
