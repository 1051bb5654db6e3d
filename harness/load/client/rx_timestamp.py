"""Receive stamps of the operating system, so that a late event loop cannot move a latency.

Linux stamps each TCP segment when it reaches the host and hands the stamp over as a control message
of `recvmsg`. A read that takes several segments gets the stamp of the last one. The stamp is
CLOCK_REALTIME and is carried onto the monotonic clock here. Where the system has no stamps, the
user-space read time takes their place and `source` says so.

Source: Linux Documentation/networking/timestamping.rst; struct scm_timestamping.
"""

import contextlib
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from harness.base.clock import Clock, RealtimeMap, SystemClock
from harness.load.client.native_socket import NativeSocket, native_accept, native_socket
from harness.records.request import Stamps

SO_TIMESTAMPING: Final = 37  # asm-generic/socket.h; Python names it only from 3.14 on
RX_SOFTWARE: Final = 1 << 3
REPORT_SOFTWARE: Final = 1 << 4
_TIMESPECS: Final = struct.Struct("@6q")  # software, deprecated, hardware: seconds and nanoseconds
ANCILLARY_SIZE: Final = socket.CMSG_SPACE(_TIMESPECS.size)
REFRESH_PERIOD_NS: Final = 500_000_000
PROBE_LIMIT_S: Final = 1.0  # a kernel worker switches stamping on, late on a busy machine


def parse_stamp(ancillary: Iterable[tuple[int, int, bytes]]) -> int | None:
    """The software receive stamp among these control messages, in realtime nanoseconds."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING and len(data) >= 16:
            seconds, nanoseconds = struct.unpack_from("@2q", data)
            if seconds or nanoseconds:
                return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


def ask_for_stamps(sock: NativeSocket) -> None:
    """Have the system stamp what this socket receives.

    Raises:
        OSError: the system refuses.
    """
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | REPORT_SOFTWARE)


@dataclass
class RxTimestamps:
    """Where receive times come from, and the map onto the monotonic clock.

    Attributes:
        source: kernel or user stamps.
        reason: why there are no kernel stamps, empty otherwise.
        n_missing: reads that came without a stamp although stamps were asked for.
        n_ahead: stamps that lay after their own read (clock drift), cut back to it.
    """

    source: Stamps
    reason: str = ""
    clock: Clock = field(default_factory=SystemClock)
    n_missing: int = 0
    n_ahead: int = 0
    # Keeps one stamped socket open: the first one switches stamping on in the whole system, some
    # milliseconds later, and the last one to close switches it off again.
    _keeper: tuple[NativeSocket, ...] = ()

    def __post_init__(self) -> None:
        """Take the first clock offset."""
        self._map = RealtimeMap(self.clock)
        self._refresh_after_ns = self.clock.monotonic_ns() + REFRESH_PERIOD_NS

    @classmethod
    def detect(cls) -> "RxTimestamps":
        """Try stamps on a loopback pair; fall back to user-space time with the reason."""
        reason, keeper = _probe()
        source = Stamps.USER if reason else Stamps.KERNEL
        return cls(source, reason, _keeper=keeper)

    @classmethod
    def user_space(cls, reason: str = "switched off") -> "RxTimestamps":
        """User-space time, whatever the system offers."""
        return cls(Stamps.USER, reason)

    @property
    def is_kernel(self) -> bool:
        """Whether stamps come from the operating system."""
        return self.source is Stamps.KERNEL

    @property
    def n_clock_steps(self) -> int:
        """Steps of the wall clock seen so far; stamps near one are void."""
        return self._map.n_steps

    def prepare(self, sock: NativeSocket) -> None:
        """Ask for stamps on a new socket where they are in use."""
        if self.is_kernel:
            ask_for_stamps(sock)

    def stamp_ns(self, ancillary: list[tuple[int, int, bytes]], read_ns: int) -> int:
        """Monotonic receive time of what was read at `read_ns` with these control messages."""
        if read_ns > self._refresh_after_ns:
            self.refresh(read_ns)
        if not self.is_kernel:
            return read_ns
        realtime_ns = parse_stamp(ancillary)
        if realtime_ns is None:
            self.n_missing += 1
            return read_ns
        stamp = self._map.to_monotonic_ns(realtime_ns)
        if stamp > read_ns:
            self.n_ahead += 1
            return read_ns
        return stamp

    def refresh(self, now_ns: int) -> None:
        """Sample the clock offset again."""
        self._refresh_after_ns = now_ns + REFRESH_PERIOD_NS
        self._map.refresh()

    def close(self) -> None:
        """Let go of the socket that keeps stamping on."""
        for sock in self._keeper:
            sock.close()
        self._keeper = ()


def _probe() -> tuple[str, tuple[NativeSocket, ...]]:
    """Whether stamps arrive on loopback: the reason why not, and sockets to keep open."""
    clock = SystemClock()
    with contextlib.ExitStack() as stack:
        try:
            near, far = _loopback_pair(stack)
            ask_for_stamps(near)
            until = clock.monotonic_ns() + int(PROBE_LIMIT_S * 1e9)
            while clock.monotonic_ns() < until:
                if _is_stamped_now(near, far, clock):
                    stack.pop_all()
                    return "", (near, far)
        except OSError as error:
            return f"the system refuses receive stamps: {error.strerror or error}", ()
    return "the system takes the option and delivers no receive stamps", ()


def _loopback_pair(stack: contextlib.ExitStack) -> tuple[NativeSocket, NativeSocket]:
    with contextlib.closing(native_socket(socket.AF_INET)) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near = stack.enter_context(contextlib.closing(native_socket(socket.AF_INET)))
        near.settimeout(PROBE_LIMIT_S)
        near.connect(listener.getsockname())
        far = stack.enter_context(contextlib.closing(native_accept(listener)))
    return near, far


def _is_stamped_now(near: NativeSocket, far: NativeSocket, clock: Clock) -> bool:
    before = clock.realtime_ns()
    far.send(b".")
    _, ancillary, _, _ = near.recvmsg(16, ANCILLARY_SIZE)
    stamp = parse_stamp(ancillary)
    return stamp is not None and before - 1_000_000 <= stamp <= clock.realtime_ns() + 1_000_000
