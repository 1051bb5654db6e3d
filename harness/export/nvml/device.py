"""Who a GPU or a MIG instance is: fixed while the exporter runs."""

from dataclasses import dataclass
from typing import Any, Final

import pynvml

from harness.export.nvml.failure import Lost, require_there

UNREADABLE: Final = (pynvml.NVMLError, Lost, UnicodeDecodeError)
MIG_WORD: Final = " MIG "


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU, or an instance of one under MIG.

    Attributes:
        handle: NVML's.
        parent: handle of the GPU that a MIG instance is part of; else the same as `handle`.
        gpu: NVML's index, which follows the PCI bus.
        minor: number of the device file; None where it is not told.
        bus_id: PCI address, domain with four hexadecimal digits and more.
        instance: number of the MIG instance; None for a GPU.
        profile: such as `1g.10gb`; empty for a GPU.
        links: NVLinks it has, up or down.
    """

    handle: Any
    parent: Any
    gpu: int
    uuid: str
    model: str
    bus_id: str = ""
    minor: int | None = None
    instance: int | None = None
    profile: str = ""
    links: tuple[int, ...] = ()


def read_devices() -> tuple[Device, ...]:
    """Every GPU, each before its MIG instances; one that does not answer has no UUID."""
    return tuple(
        device for gpu in range(pynvml.nvmlDeviceGetCount()) for device in _gpu_and_instances(gpu)
    )


def _gpu_and_instances(gpu: int) -> list[Device]:
    try:
        device = _gpu(gpu)
    except UNREADABLE:
        return [Device(handle=None, parent=None, gpu=gpu, uuid="", model="")]
    try:
        return [device, *_instances(device)]
    except UNREADABLE:
        return [device]


def _gpu(gpu: int) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
    return Device(
        handle=handle,
        parent=handle,
        gpu=gpu,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        model=pynvml.nvmlDeviceGetName(handle),
        bus_id=text(pynvml.nvmlDeviceGetPciInfo_v3(handle).busId),
        minor=or_none(pynvml.nvmlDeviceGetMinorNumber, handle),
        links=_links(handle),
    )


def _instances(device: Device) -> list[Device]:
    mode = or_none(pynvml.nvmlDeviceGetMigMode, device.handle)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    count = or_none(pynvml.nvmlDeviceGetMaxMigDeviceCount, device.handle) or 0
    handles = [
        or_none(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, device.handle, index)
        for index in range(count)
    ]
    return [_instance(device, handle) for handle in handles if handle is not None]


def _instance(device: Device, handle: Any) -> Device:
    model = pynvml.nvmlDeviceGetName(handle)
    return Device(
        handle=handle,
        parent=device.handle,
        gpu=device.gpu,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        model=device.model,
        bus_id=device.bus_id,
        minor=device.minor,
        instance=or_none(pynvml.nvmlDeviceGetGpuInstanceId, handle),
        profile=model.partition(MIG_WORD)[2],
    )


def _links(handle: Any) -> tuple[int, ...]:
    every = range(pynvml.NVML_NVLINK_MAX_LINKS)
    return tuple(
        link for link in every if or_none(pynvml.nvmlDeviceGetNvLinkState, handle, link) is not None
    )


def or_none(call: Any, *arguments: Any) -> Any:
    """What an NVML call gives; None where it cannot.

    Raises:
        Lost: the GPU is gone.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        require_there(error.value)
        return None


def text(value: bytes | str) -> str:
    """A C string, whichever way the binding hands it over."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
