"""Waking greenlets at a point in time, to some tens of microseconds.

The event loop's own timers round up to the next millisecond (epoll's unit), which an open loop
would pay on every send. Linux timer descriptors are exact; elsewhere the loop's timers serve.
"""

import ctypes
import heapq
import itertools
import os
import time
from collections.abc import Callable
from typing import Any, Final

from gevent import get_hub
from gevent.hub import Waiter

READ: Final = 1
_ABSOLUTE: Final = 1
_NONBLOCK_CLOEXEC: Final = 0o2004000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Lets greenlets sleep until a monotonic time."""

    def __init__(self, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._now = now
        self._loop = get_hub().loop
        self._due: list[tuple[int, int, Any]] = []
        self._serial = itertools.count()
        self._watcher: Any = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = _timer_descriptor(self._libc)
        if self._fd is not None:
            self._watcher = self._loop.io(self._fd, READ)
            self._watcher.start(self._on_descriptor)

    @property
    def is_exact(self) -> bool:
        """Whether a timer descriptor is in use."""
        return self._fd is not None

    def sleep_until(self, due_ns: int) -> bool:
        """Sleep; False when `wake_all` ended it early."""
        if due_ns <= self._now():
            return True
        waiter: Waiter[bool] = Waiter()
        heapq.heappush(self._due, (due_ns, next(self._serial), waiter))
        self._set()
        return bool(waiter.get())

    def wake_all(self) -> None:
        """End every sleep now."""
        due, self._due = self._due, []
        for _, _, waiter in due:
            self._loop.run_callback(waiter.switch, False)  # noqa: FBT003

    def close(self) -> None:
        """Give the descriptor back; sleepers are woken."""
        self.wake_all()
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
            self._watcher = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _set(self) -> None:
        """Arm the one timer for the earliest sleeper."""
        due_ns = self._due[0][0]
        if self._fd is not None:
            value = _Timespec(*divmod(max(1, due_ns), 1_000_000_000))
            spec = ctypes.byref(_Itimerspec(value=value))
            self._libc.timerfd_settime(self._fd, _ABSOLUTE, spec, None)
            return
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
        self._watcher = self._loop.timer(max(0.0, (due_ns - self._now()) / 1e9))
        self._watcher.start(self._wake_due)

    def _on_descriptor(self) -> None:
        assert self._fd is not None
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._wake_due()

    def _wake_due(self) -> None:
        now = self._now()
        woken = []
        while self._due and self._due[0][0] <= now:
            woken.append(heapq.heappop(self._due)[2])
        if self._due:
            self._set()
        for waiter in woken:
            waiter.switch(True)  # noqa: FBT003


def _timer_descriptor(libc: Any) -> int | None:
    if not hasattr(libc, "timerfd_create"):
        return None
    fd = int(libc.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC))
    return fd if fd >= 0 else None
