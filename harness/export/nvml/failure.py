"""What NVML's error codes mean: the GPU is gone, a value never comes, or not this time."""

from typing import Final

import pynvml

from harness.base.errors import SetupError

REASONS: Final = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "driver too old",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "driver too old",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "not supported",
    pynvml.NVML_ERROR_NO_DATA: "no data",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "library not found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver and library differ",
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset required",
    pynvml.NVML_ERROR_UNINITIALIZED: "not initialised",
}
FOR_GOOD: Final = frozenset({"not supported", "driver too old", "no permission"})
"""Reasons that are not asked about again while the exporter runs."""
GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


class NvmlMissing(SetupError):  # noqa: N818  what it is
    """NVML cannot be used on this machine; `reason` is one of a few words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"no GPU can be read: NVML says {reason}. With an NVIDIA driver, `nvidia-smi` "
            "tells more; a container needs --gpus all"
        )


class Lost(Exception):  # noqa: N818  the driver's word
    """The GPU has fallen off the bus or waits for a reset."""


def reason_of(code: int) -> str:
    """A few words for an error code."""
    return REASONS.get(code, f"error {code}")


def require_there(code: int) -> None:
    """Pass every code but those of a GPU that is gone.

    Raises:
        Lost: where it is.
    """
    if code in GONE:
        raise Lost
