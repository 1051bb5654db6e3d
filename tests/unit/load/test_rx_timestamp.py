"""Receive stamps of the operating system, and what takes their place."""

import socket
import struct
import time
from dataclasses import dataclass

import gevent
import pytest

from harness.load.client.deadlines import Timeouts
from harness.load.client.endpoint import resolve
from harness.load.client.exchange import Exchange, HttpRequest
from harness.load.client.http import HttpClient
from harness.load.client.rx_timestamp import SO_TIMESTAMPING, RxTimestamps, parse_stamp
from harness.records.request import Stamps
from tests.unit.load.scripted_server import OK, Step, chunked, serving

MS = 1_000_000
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def control(*numbers: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("@6q", *numbers))]


@pytest.mark.parametrize(
    ("ancillary", "stamp"),
    [
        (control(5, 7, 0, 0, 0, 0), 5_000_000_007),
        (control(0, 0, 0, 0, 9, 9), None),
        ([], None),
        ([(socket.SOL_SOCKET, 1, b"\0" * 48)], None),
        ([(socket.SOL_SOCKET, SO_TIMESTAMPING, b"short")], None),
    ],
)
def test_the_software_stamp_is_the_first_timespec(
    ancillary: list[tuple[int, int, bytes]], stamp: int | None
) -> None:
    """Only a non-zero software stamp of the right kind and size counts."""
    assert parse_stamp(ancillary) == stamp


@dataclass
class FakeClock:
    """Two clocks that a test sets."""

    monotonic: int = 0
    realtime: int = 0

    def monotonic_ns(self) -> int:
        """The set monotonic time."""
        return self.monotonic

    def realtime_ns(self) -> int:
        """The set wall-clock time."""
        return self.realtime


def test_a_stamp_is_carried_onto_the_monotonic_clock() -> None:
    """Realtime minus the offset sampled at the start."""
    stamps = RxTimestamps(Stamps.KERNEL, clock=FakeClock(monotonic=10, realtime=5_000_000_010))
    assert stamps.stamp_ns(control(5, 20, 0, 0, 0, 0), read_ns=500) == 20


def test_a_stamp_never_lies_after_its_own_read() -> None:
    """Clock drift between refreshes is cut back to the read, and counted."""
    stamps = RxTimestamps(Stamps.KERNEL, clock=FakeClock(monotonic=10, realtime=5_000_000_010))
    assert stamps.stamp_ns(control(5, 900, 0, 0, 0, 0), read_ns=500) == 500
    assert stamps.n_ahead == 1


def test_a_read_without_a_stamp_falls_back_and_is_counted() -> None:
    """Kernel stamps asked for, none came: the read time serves."""
    stamps = RxTimestamps(Stamps.KERNEL, clock=FakeClock())
    assert stamps.stamp_ns([], read_ns=500) == 500
    assert stamps.n_missing == 1


def test_a_clock_step_is_counted_at_the_next_refresh() -> None:
    """The wall clock jumps by 5 ms: one step; a slew of 0.5 ms: none."""
    clock = FakeClock()
    stamps = RxTimestamps(Stamps.KERNEL, clock=clock)
    clock.realtime += 500_000
    stamps.refresh(0)
    assert stamps.n_clock_steps == 0
    clock.realtime += 5 * MS
    stamps.stamp_ns([], read_ns=600 * MS)
    assert stamps.n_clock_steps == 1


def test_user_space_time_says_so() -> None:
    """Without kernel stamps the source is `user` with a reason, and sockets are left alone."""
    stamps = RxTimestamps.user_space("for this test")
    assert (stamps.source, stamps.reason, stamps.is_kernel) == (Stamps.USER, "for this test", False)
    assert stamps.stamp_ns(control(5, 20, 0, 0, 0, 0), read_ns=500) == 500


def test_detection_gives_stamps_or_a_reason() -> None:
    """Either kernel stamps work here, or the reason why not is stated."""
    stamps = RxTimestamps.detect()
    try:
        assert stamps.is_kernel == (stamps.reason == "")
    finally:
        stamps.close()


def read_late(stamps: RxTimestamps, block_ns: int = 100 * MS) -> tuple[Exchange, int]:
    """An exchange whose only chunk arrives while the loop is blocked, and its true send time."""
    script: list[Step] = ["read", CHUNKED, 0.3, chunked(b"late"), 1.0, b"0\r\n\r\n"]
    with serving(script) as server:
        client = HttpClient(resolve(server.url), Timeouts(), stamps)
        request = HttpRequest(path="/x", body=b"{}")
        client.begin(request)
        while len(server.sent_ns) < 1:
            gevent.sleep(0.002)
        gevent.sleep(0.02)  # the head is read; the chunk is not sent yet
        while len(server.sent_ns) < 2 or time.monotonic_ns() < server.sent_ns[1] + block_ns:
            time.sleep(0.005)  # a late event loop: no greenlet, no callback runs
        exchange = client.wait()
        client.close()
        return exchange, server.sent_ns[1]


def test_a_reader_that_sleeps_still_gets_the_true_arrival() -> None:
    """The loop reads the chunk 100 ms and more too late; its stamp is far nearer to the truth."""
    stamps = RxTimestamps.detect()
    if not stamps.is_kernel:
        pytest.skip(f"no kernel stamps: {stamps.reason}")
    try:
        exchange, sent_ns = read_late(stamps)
    finally:
        stamps.close()
    piece = exchange.chunks[0]
    assert piece.read_ns - sent_ns > 90 * MS
    assert -MS < piece.rx_ns - sent_ns < (piece.read_ns - sent_ns) / 2
    assert exchange.rx_lag_ns is not None
    assert exchange.rx_lag_ns > 40 * MS


def test_without_kernel_stamps_a_late_reader_is_late() -> None:
    """The same situation in user-space time is off by the sleep, and reports no lag."""
    exchange, sent_ns = read_late(RxTimestamps.user_space())
    assert exchange.chunks[0].rx_ns - sent_ns > 50 * MS
    assert (exchange.rx_lag_ns, exchange.stamps) == (None, Stamps.USER)
