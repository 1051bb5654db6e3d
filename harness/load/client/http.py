"""HTTP/1.1 client that measures: one keep-alive connection, read by a watcher of the event loop.

Each read happens in the loop's own callback, with the system's receive stamp, and costs no greenlet
switch; the waiting greenlet wakes once, when the exchange is over. Nothing is retried: a request
that may have reached the server is sent once and its fate recorded. Sockets are never patched.
"""

import errno
import os
import socket
from typing import Any, Final

from gevent import get_hub
from gevent.hub import Waiter

from harness.load.client.deadlines import Deadlines, Timeouts
from harness.load.client.endpoint import Endpoint
from harness.load.client.exchange import Exchange, HttpRequest, bounded
from harness.load.client.keep_alive import KeepAlive
from harness.load.client.native_socket import NativeSocket, native_socket
from harness.load.client.response import MAX_BODY_BYTES, ResponseError, ResponseReader
from harness.load.client.rx_timestamp import ANCILLARY_SIZE, RxTimestamps
from harness.records.request import Outcome

RECV_BYTES: Final = 65536
READ, WRITE = 1, 2
# Shared by all clients of the loop's thread: a callback is done with it before the next one runs.
_BUFFER: Final = memoryview(bytearray(RECV_BYTES))
_BUFFERS: Final = (_BUFFER,)


class HttpClient:
    """One user's client: one request at a time, on one connection.

    Greenlet rule: `begin` and `wait` from one greenlet; `cancel` from any other.

    Without `keep_alive` a connection is used again whenever HTTP says that it may be.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeouts: Timeouts,
        stamps: RxTimestamps,
        keep_alive: KeepAlive | None = None,
    ) -> None:
        self._keep_alive = keep_alive
        self._endpoint = endpoint
        self._timeouts = timeouts
        self._stamps = stamps
        self._now = stamps.clock.monotonic_ns
        self._loop = get_hub().loop
        self._sock: NativeSocket | None = None
        self._reading: Any = None
        self._timer: Any = None
        self._waiter: Any = None
        self._n_on_connection = 0
        self._request: HttpRequest | None = None
        self._reset_state()

    def _reset_state(self) -> None:
        self._reader = ResponseReader()
        self._started_ns = self._now()
        self._deadlines = Deadlines(
            self._timeouts,
            self._started_ns,
            may_ask=self._request is not None and self._request.is_finished is not None,
        )
        self._sent_ns: int | None = None
        self._ended_ns = 0
        self._is_over = False
        self._is_reused = False
        self._is_cut_short = False
        self._was_queued = False
        self._failure: Outcome | None = None
        self._error: str | None = None

    def exchange(self, request: HttpRequest) -> Exchange:
        """Send a request and wait for what becomes of it."""
        self.begin(request)
        return self.wait()

    def begin(self, request: HttpRequest) -> None:
        """Send a request; returns when its last byte is with the operating system."""
        assert self._request is None, "one request at a time"
        self._request = request
        self._reset_state()
        try:
            if self._drop_stale():
                self._is_reused = self._n_on_connection > 0
            else:
                self._connect()
            if not self._is_over:
                self._arm()
                self._send(_wire(request, self._endpoint))
        except BaseException:
            self._abandon()
            raise

    def wait(self) -> Exchange:
        """Wait for the end of the request that `begin` sent."""
        request = self._request
        assert request is not None, "nothing was sent"
        try:
            while not self._is_over:
                self._block()
        except BaseException:
            self._abandon()
            raise
        self._request = None
        self._disarm()
        if not (self._failure is None and self._reader.can_be_reused and not self._is_cut_short):
            self.close()
        elif self._keep_alive is not None and not self._keep_alive.is_kept:
            self._leave(self._keep_alive)
        return self._result()

    def cancel(self) -> None:
        """End the request in flight, if any, as `cancelled`; what came so far is kept."""
        if self._request is not None and not self._is_over:
            self._loop.run_callback(self._finish, Outcome.CANCELLED, "cancelled by the client")

    def close(self) -> None:
        """Close the connection."""
        self._disarm()
        self._stop_reading()
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self._n_on_connection = 0

    def _leave(self, keep_alive: KeepAlive) -> None:
        """Nothing says that this connection will live: have it watched, or close it."""
        self._stop_reading()
        if self._sock is not None and keep_alive.watch(self._sock):
            self._sock = None
        self.close()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.stop()
            self._reading.close()
            self._reading = None

    # connecting

    def _drop_stale(self) -> bool:
        """Whether a live connection is at hand; one that the server closed is let go."""
        if self._sock is None:
            return False
        try:
            self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            pass
        self.close()  # closed by the server, or bytes nobody asked for
        return False

    def _connect(self) -> None:
        sock = native_socket(self._endpoint.family)
        self._sock = sock
        sock.settimeout(0.0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stamps.prepare(sock)
        code = sock.connect_ex(self._endpoint.address)
        if code == errno.EINPROGRESS:
            self._deadlines.is_connecting = True
            self._arm()
            self._wait_writable(sock)
            self._deadlines.is_connecting = False
            if self._is_over:
                return
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._finish(
                Outcome.CONNECT_ERROR, f"{self._endpoint.url}: {os.strerror(code).lower()}"
            )
            return
        self._deadlines.active_ns = self._now()
        self._reading = self._loop.io(sock.fileno(), READ)
        self._reading.start(self._on_readable)

    # sending

    def _send(self, wire: bytes) -> None:
        sock = self._sock
        assert sock is not None
        rest = memoryview(wire)
        called_ns = self._now()
        while rest and not self._is_over:
            # Before the call: on one machine the server may run, and answer, before it returns.
            called_ns = self._now()
            try:
                rest = rest[sock.send(rest) :]
            except (BlockingIOError, InterruptedError):
                self._wait_writable(sock)
            except OSError as error:
                self._read_parting_words(error)
        if not rest:
            self._sent_ns = self._deadlines.active_ns = called_ns
            self._n_on_connection += 1

    def _read_parting_words(self, error: OSError) -> None:
        """The server closed while we sent: an answer may still be waiting in the socket."""
        while not self._is_over:
            before = self._reader.last_ns
            self._on_readable()
            if self._reader.last_ns == before and not self._is_over:
                self._finish(Outcome.RESET, _reason("the request could not be sent", error))

    # reading, in the loop's callback

    def _on_readable(self) -> None:
        sock = self._sock
        assert sock is not None
        try:
            size, ancillary, _, _ = sock.recvmsg_into(_BUFFERS, ANCILLARY_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._on_broken(error)
            return
        if self._request is None or self._is_over:
            self.close()  # the server closed an idle connection, or spoke unasked
            return
        if size == 0:
            self._finish_at_eof()
            return
        read_ns = self._deadlines.active_ns = self._now()
        try:
            self._reader.feed(
                _BUFFER[:size],
                self._stamps.stamp_ns(ancillary, read_ns),
                read_ns,
                was_queued=self._was_queued,
            )
        except ResponseError as error:
            self._finish(Outcome.PROTOCOL_ERROR, str(error))
            return
        self._was_queued = size == RECV_BYTES
        if self._reader.is_complete:
            self._finish(None, None)
        elif self._reader.is_oversized:
            self._finish(Outcome.PROTOCOL_ERROR, f"a body of more than {MAX_BODY_BYTES:,} bytes")

    def _on_broken(self, error: OSError) -> None:
        if self._request is None or self._is_over:
            self.close()
        else:
            self._finish(Outcome.RESET, _reason("the connection broke", error))

    def _finish_at_eof(self) -> None:
        ended = self._reader.end_of_stream()
        self._finish(*(ended or (None, None)))

    # the watchdog

    def _arm(self) -> None:
        self._disarm()
        self._timer = self._loop.timer(self._deadlines.next_check_s(self._now()))
        self._timer.start(self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _on_timer(self) -> None:
        now = self._now()
        expired = self._deadlines.expired(now)
        if expired is not None:
            outcome, text = expired
            self._finish(outcome, f"{self._endpoint.url}: {text}")
        elif self._deadlines.asks_now(now) and self._has_ended():
            self._is_cut_short = True
            self._finish(None, None)
        else:
            self._arm()

    def _has_ended(self) -> bool:
        """Ask the answer whether its last word was said, though the connection stays open."""
        request, pieces = self._request, self._reader.pieces
        if request is None or request.is_finished is None or not pieces:
            return False
        return request.is_finished([piece.data for piece in pieces])

    # waking

    def _finish(self, failure: Outcome | None, error: str | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._failure = failure
        self._error = None if error is None else bounded(error)
        self._ended_ns = self._now()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.switch(None)

    def _block(self) -> None:
        waiter = self._waiter = Waiter()
        try:
            waiter.get()
        finally:
            self._waiter = None

    def _wait_writable(self, sock: NativeSocket) -> None:
        watcher = self._loop.io(sock.fileno(), WRITE)
        watcher.start(self._wake)
        try:
            self._block()
        finally:
            watcher.stop()
            watcher.close()

    def _abandon(self) -> None:
        """The greenlet was killed in the middle: leave nothing behind."""
        self._is_over = True
        self._request = None
        self.close()

    def _result(self) -> Exchange:
        reader = self._reader
        return Exchange(
            started_ns=self._started_ns,
            sent_ns=self._sent_ns,
            headers_ns=reader.headers_ns,
            first_byte_ns=reader.first_byte_ns,
            done_ns=reader.last_ns,
            ended_ns=self._ended_ns,
            status=reader.status,
            headers=reader.headers,
            chunks=tuple(reader.pieces),
            failure=self._failure,
            error=self._error,
            stamps=self._stamps.source,
            rx_lag_ns=reader.max_lag_ns if self._stamps.is_kernel else None,
            is_reused=self._is_reused,
            is_cut_short=self._is_cut_short,
        )


def _reason(what: str, error: OSError) -> str:
    return f"{what}: {(error.strerror or str(error)).lower()}"


def _wire(request: HttpRequest, endpoint: Endpoint) -> bytes:
    """The request as bytes."""
    lines = [
        f"{request.method} {endpoint.base_path}{request.path} HTTP/1.1",
        f"Host: {endpoint.host_header}",
        "Accept-Encoding: identity",
        f"Content-Length: {len(request.body)}",
        *(f"{name}: {value}" for name, value in request.headers),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body
