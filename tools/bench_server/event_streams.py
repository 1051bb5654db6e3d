"""Reads many event streams at once and tells what a stretch in the middle of them cost.

The stretch begins when every stream has given some events and ends when the first is nearly
through, so that the requests themselves are in none of it.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK: Final = b"data: {"
_END: Final = b"data: [DONE]"
_EDGE: Final = 10
"""Events at either end of a stream that are left out."""
_TIMEOUT_S: Final = 120


class Cost(NamedTuple):
    """Per event, in seconds: wall time, and processor time of each process that was watched."""

    wall_s: float
    processor_s: tuple[float, ...]


class Stamp(NamedTuple):
    """Where things stand."""

    n_events: int
    wall_s: float
    processor_s: tuple[float, ...]


@dataclass(eq=False)
class Stream:
    """One connection; `tail` is kept for marks that a read cuts in two."""

    connection: socket.socket
    n_events: int = 0
    tail: bytes = b""
    first: bytearray = field(default_factory=bytearray)

    def read(self) -> bool:
        """Take what is there; False when the stream has ended."""
        data = self.connection.recv(1 << 16)
        if len(self.first) < 1 << 12:
            self.first += data
        text = self.tail + data
        self.n_events += text.count(_MARK) - self.tail.count(_MARK)
        self.tail = text[-len(_END) :]
        if not data:
            raise RuntimeError(f"a stream broke off after {self.n_events} events")
        return _END not in text


def processor_s(pid: int) -> float:
    """Processor time of a process, all threads; Linux numbers its clock so."""
    return time.clock_gettime(~pid << 3 | 2)


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listing:  # noqa: PTH123
        return [int(child) for child in listing.read().split()]


class EventStreams:
    """Streams of one server."""

    def __init__(self, url: str, pids: Sequence[int]) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._path = parts.path
        self._pids = tuple(pids)
        self.example = ""

    def run(
        self, body: dict[str, Any], n_streams: int, n_events: int, accel: str = "false"
    ) -> Cost:
        """Open streams of `n_events` each with the same request; give the cost of an event."""
        with selectors.DefaultSelector() as selector:
            streams = [self._open(selector, body, accel) for _ in range(n_streams)]
            try:
                return self._watch(selector, streams, n_events)
            finally:
                for stream in streams:
                    stream.connection.close()

    def time_first(self, body: dict[str, Any], accel: str) -> float:
        """Open one stream; give the seconds from before the connection to its first event."""
        began = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            stream = self._open(selector, body, accel)
            with stream.connection:
                is_open = True
                while not stream.n_events:
                    is_open = stream.read()
                seconds = time.perf_counter() - began
                while is_open:
                    is_open = stream.read()
        return seconds

    def _open(self, selector: selectors.BaseSelector, body: dict[str, Any], accel: str) -> Stream:
        connection = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        data = json.dumps(body).encode()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"X-MC-Accel: {accel}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        connection.sendall(head.encode() + data)
        stream = Stream(connection)
        selector.register(connection, selectors.EVENT_READ, stream)
        return stream

    def _watch(
        self, selector: selectors.BaseSelector, streams: list[Stream], n_events: int
    ) -> Cost:
        begin = end = None
        n_open = len(streams)
        while n_open:
            ready = selector.select(_TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"no stream had anything to read for {_TIMEOUT_S} s")
            for key, _ in ready:
                if not key.data.read():
                    selector.unregister(key.fileobj)
                    n_open -= 1
            counts = [stream.n_events for stream in streams]
            if begin is None and min(counts) >= _EDGE:
                begin = self._stamp(sum(counts))
            if end is None and max(counts) >= n_events - _EDGE:
                end = self._stamp(sum(counts))
        assert begin is not None
        assert end is not None
        self.example = _first_event(bytes(streams[0].first))
        n = end.n_events - begin.n_events
        spent = zip(begin.processor_s, end.processor_s, strict=True)
        return Cost((end.wall_s - begin.wall_s) / n, tuple((b - a) / n for a, b in spent))

    def _stamp(self, n_events: int) -> Stamp:
        return Stamp(n_events, time.perf_counter(), tuple(map(processor_s, self._pids)))


def _first_event(data: bytes) -> str:
    """Cut one event out of a chunked body."""
    begin = data.index(_MARK)
    return data[begin : data.index(b"\n\n", begin) + 2].decode()
