"""Whether a pool's device is there, asked of torch.

Everything past this line takes a `torch.device` and does not care which: the CPU, or an accelerator
that torch has built in (cuda, xpu, mps) or finds in a package of its own (`torch_npu`).
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, TypeVar, cast

import torch

from harness.base.errors import SetupError

T = TypeVar("T")


def require_device(name: str, pool: str) -> torch.device:
    """Return the device, proved by an allocation on it.

    Raises:
        SetupError: torch does not know it, or this machine has none.
    """
    plugin = f"torch_{name.partition(':')[0]}"
    try:
        if importlib.util.find_spec(plugin) is not None:
            importlib.import_module(plugin)
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")  # noqa: TRY301  as torch refuses the others
        torch.zeros(1, device=device)
    # What an absent device raises differs from backend to backend.
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise SetupError(
            f"--pool {pool}={name}: no such device ({reason}). This machine has "
            f"{', '.join(present_devices())}; take one of these, or leave the pool out."
        ) from error
    return device


def present_devices() -> list[str]:
    """Name the devices that torch has here, the CPU first."""
    accelerator = torch.accelerator.current_accelerator() if _has_accelerator() else None
    if accelerator is None:
        return ["cpu"]
    count = torch.accelerator.device_count()
    return ["cpu", *(f"{accelerator.type}:{index}" for index in range(count))]


def _has_accelerator() -> bool:
    return torch.accelerator.is_available()


def on_device(value: T, device: torch.device) -> T:
    """Move every tensor of nested tuples and lists; on the CPU everything is where it should be."""
    return value if device.type == "cpu" else cast("T", _moved(value, device))


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [_moved(each, device) for each in value]
    if isinstance(value, tuple):
        moved = [_moved(each, device) for each in value]
        return tuple(moved) if type(value) is tuple else type(value)(*moved)  # a NamedTuple
    return value
