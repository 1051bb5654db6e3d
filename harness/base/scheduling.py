"""Asks the Linux scheduler to run a measuring process soon: it needs little, but at once.

On a busy machine a process that wakes up waits until others have used up their time slice, some
milliseconds each. A short slice of our own moves the wake-up forward and takes nothing from
anyone's share of the processor; no privilege is needed, Linux 6.12 and later honour it. A better
priority helps on every version and needs the privilege (root, CAP_SYS_NICE or RLIMIT_NICE).

Source: sched_setattr(2); Linux Documentation/scheduler/sched-eevdf.rst (custom slices).
"""

import contextlib
import ctypes
import os
import platform
import struct
from typing import Final

SLICE_NS: Final = 100_000
NICE: Final = -10
_SYSCALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
# size, policy, flags, nice, priority, runtime, deadline, period, util_min, util_max
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")


def ask_for_priority(nice: int = NICE) -> int:
    """Ask for a better priority for the calling thread; the nice value it has afterwards."""
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:  # otherwise somebody chose it on purpose
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
    return os.getpriority(os.PRIO_PROCESS, 0)


def ask_for_short_slices(slice_ns: int = SLICE_NS) -> bool:
    """Ask for short time slices for the calling thread; whether the system has taken it over."""
    numbers = _SYSCALLS.get(platform.machine())
    if numbers is None or platform.system() != "Linux":
        return False
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False  # somebody chose a policy on purpose
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syscall"):
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, 0, 0, nice, 0, slice_ns, 0, 0, 0, 0)
    if libc.syscall(numbers[0], 0, wanted, 0) != 0:
        return False
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if libc.syscall(numbers[1], 0, found, _ATTRIBUTES.size, 0) != 0:
        return False
    # Older kernels take the call and ignore the slice: they report none.
    return bool(_ATTRIBUTES.unpack(found.raw)[5] == slice_ns)
