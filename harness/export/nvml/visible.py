"""Which GPUs `CUDA_VISIBLE_DEVICES` means: by UUID always, by number where CUDA's order is NVML's.

NVML counts along the PCI bus. CUDA does too with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and where all GPUs
are of one model; else a number could name another GPU than the user's, and is refused.
"""

from collections.abc import Mapping, Sequence

from harness.base.errors import SetupError
from harness.export.nvml.device import Device


def visible(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices a CUDA program with this environment would see, MIG instances by their GPU.

    Raises:
        SetupError: a number, and the order of GPUs is not certain.
    """
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(devices)
    words = [word.strip() for word in wanted.split(",")] if wanted.strip() else []
    if any(word.isdecimal() for word in words):
        _require_order(devices, environment, wanted)
    found: list[Device] = []
    for word in words:
        matching = [device for device in devices if _is_meant(device, word)]
        if not matching:
            break  # CUDA ends its list at the first word that names nothing
        found += [device for device in matching if device not in found]
    return tuple(found)


def _is_meant(device: Device, word: str) -> bool:
    if word.isdecimal():
        return device.gpu == int(word)
    return len(word) > len("GPU-") and device.uuid.startswith(word)


def _require_order(devices: Sequence[Device], environment: Mapping[str, str], wanted: str) -> None:
    one_model = len({device.model for device in devices}) <= 1
    if not one_model and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise SetupError(
            f"CUDA_VISIBLE_DEVICES={wanted}: the GPUs are of several models, so that a number may "
            "mean another GPU to CUDA than to NVML; use UUIDs (nvidia-smi -L) or set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
