"""The doctor on time: receive stamps, clock source, resolution, steps."""

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from harness.base.clock import RealtimeMap, SystemClock
from harness.cli.check import Check, judge
from harness.load.client.rx_timestamp import ANCILLARY_SIZE, RxTimestamps

CLOCK_SOURCE: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
SLOW_SOURCES: Final = frozenset({"hpet", "acpi_pm", "jiffies", "pit"})
LATE_S: Final = 0.02
N_LATE_READS: Final = 5
N_CLOCK_READS: Final = 2000
COARSE_NS: Final = 1000
WATCHED_S: Final = 0.3
MS: Final = 1e6


def check_clock() -> Iterator[Check]:
    """Everything about time."""
    yield check_stamps()
    yield check_source()
    yield check_resolution()
    yield check_steps()


def check_stamps() -> Check:
    """Whether a read that comes late still gets the true time of arrival, tried on loopback."""
    try:
        stamps = RxTimestamps.detect()
    except OSError as error:
        return Check(
            name="loopback",
            state="impossible",
            found=f"no loopback connection: {error.strerror or error}",
            costs="the bundled server and the load process cannot meet",
            do="allow connections on 127.0.0.1",
        )
    with contextlib.closing(stamps):
        errors = [_late_read_error_ns(stamps) for _ in range(N_LATE_READS)]
    worst = max(errors) / MS
    return judge(
        "receive stamps",
        ok=stamps.is_kernel,
        found=(
            f"from the kernel: of {N_LATE_READS} reads made {LATE_S * 1e3:.0f} ms late, the worst "
            f"was stamped {worst:.3f} ms after the send"
            if stamps.is_kernel
            else stamps.reason
        ),
        costs="a busy client makes TTFT and ITL look longer; every run and report says so",
        do="measure on Linux, outside a sandbox that swallows SO_TIMESTAMPING",
    )


def _late_read_error_ns(stamps: RxTimestamps) -> int:
    """Stamp minus the time of the send, for bytes that wait in the socket before they are read."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        near = stack.enter_context(socket.create_connection(listener.getsockname()))
        stamps.prepare(near)
        far = stack.enter_context(listener.accept()[0])
        sent_ns = time.monotonic_ns()
        far.send(b".")
        time.sleep(LATE_S)
        _, ancillary, _, _ = near.recvmsg(16, ANCILLARY_SIZE)
        return stamps.stamp_ns(ancillary, time.monotonic_ns()) - sent_ns


def check_source() -> Check:
    """What the kernel reads the time from."""
    try:
        source = CLOCK_SOURCE.read_text(encoding="utf-8").strip()
    except OSError:
        source = "not visible"
    return judge(
        "clock source",
        ok=source not in SLOW_SOURCES,
        found=source,
        costs="each reading of the clock costs a microsecond or more, on every chunk",
        do="boot with a stable TSC, or choose another machine type",
    )


def check_resolution() -> Check:
    """Smallest step and cost of the monotonic clock."""
    readings = [time.monotonic_ns() for _ in range(N_CLOCK_READS)]
    steps = [b - a for a, b in itertools.pairwise(readings) if b > a]
    step = min(steps, default=0)
    cost = (readings[-1] - readings[0]) / (N_CLOCK_READS - 1)
    return judge(
        "clock resolution",
        ok=0 < step <= COARSE_NS,
        found=f"{step} ns, {cost:.0f} ns a reading (median step {median(steps or [0]):.0f} ns)",
        costs="latencies below a few of these steps cannot be told apart",
        do="choose another machine type",
    )


def check_steps() -> Check:
    """Whether the wall clock moves against the monotonic one while it is watched."""
    clock = SystemClock()
    offsets = RealtimeMap(clock)
    until_ns = clock.monotonic_ns() + int(WATCHED_S * 1e9)
    while clock.monotonic_ns() < until_ns:
        time.sleep(0.01)
        offsets.refresh()
    return judge(
        "clock steps",
        ok=offsets.n_steps == 0,
        found=(
            f"{offsets.n_steps} in {WATCHED_S:g} s; largest drift between two looks "
            f"{offsets.max_drift_ns / 1e3:.1f} us"
        ),
        costs="a step voids the receive stamps around it",
        do="let the time daemon slew (chrony: no makestep while measuring)",
    )
