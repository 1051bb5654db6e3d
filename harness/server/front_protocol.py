"""The connection: uvicorn's HTTP protocol, with bounds on what a client may hold and for how long.

uvicorn waits for ever for a request that has begun and for a client that does not read. Here a
request must be complete, and an unread answer must move, within the client timeout; what is neither
body nor small is refused. Answers of this layer have the same shape as all others.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from harness.server.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HEAD_BYTES: Final = 1 << 16
"""Request line and header fields; framing of a chunked body may take eight times the body more."""
TRANSPORT: Final = "tailbreak.transport"
"""Key of the scope: the connection's transport, to end it or to see whether it has ended."""


class FrontProtocol(HttpToolsProtocol):
    """One connection of a client that may be slow, silent or broken."""

    client_timeout_s: float
    on_refused: Callable[[int], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arrival: asyncio.TimerHandle | None = None
        self._departure: asyncio.TimerHandle | None = None
        self._is_in_message = False
        self._is_in_head = True
        self._n_body = 0
        self._n_other = 0
        self._cycles: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more, and tell every request that its client is gone.

        uvicorn tells the last one that came: of requests sent in a row, not the one that is being
        answered.
        """
        super().connection_lost(exc)
        self.pipeline.clear()
        for cycle in self._cycles:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        _cancel(self._arrival)
        _cancel(self._departure)

    def data_received(self, data: bytes) -> None:
        """Parse, and refuse a head without end."""
        if self.transport.is_closing():
            return
        self._n_other += len(data)
        super().data_received(data)
        if self._is_in_message and self._n_other > MAX_HEAD_BYTES + 8 * self._n_body:
            self._refuse(431, f"head: allowed {MAX_HEAD_BYTES} bytes", "head_too_large")
        elif not self._is_in_message and self._is_idle:
            # Stray line ends begin no request, but have stopped uvicorn's own clock.
            self._expect_request()

    def on_message_begin(self) -> None:
        """Start the clock of a request."""
        super().on_message_begin()
        self._is_in_message = True
        self._n_body = self._n_other = 0
        self.scope[TRANSPORT] = self.transport  # type: ignore[typeddict-unknown-key]
        self._expect_request()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        super().on_headers_complete()
        open_cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        self._cycles = [*open_cycles, self.cycle]
        self._is_in_head = False

    def on_body(self, body: bytes) -> None:
        """Tell body from head."""
        self._n_body += len(body)
        self._n_other -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock."""
        self._is_in_message = False
        self._is_in_head = True
        _cancel(self._arrival)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give the client a while to read what is still here."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()

    def pause_writing(self) -> None:
        """Give a client that does not read a while to begin."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """It reads."""
        super().resume_writing()
        _cancel(self._departure)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, msg, "invalid_http")

    @property
    def _is_idle(self) -> bool:
        """Whether no answer is owed."""
        earlier: object = self.cycle  # None before the first head, whatever uvicorn annotates
        return earlier is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        _cancel(self._arrival)
        self._arrival = self.loop.call_later(self.client_timeout_s, self._on_late_request)

    def _expect_reading(self) -> None:
        _cancel(self._departure)
        self._departure = self.loop.call_later(self.client_timeout_s, self._on_unread)

    def _on_late_request(self) -> None:
        """End a request that does not come to its end; a silent connection gets no answer."""
        if self.pipeline:  # it waits for the answer before it, and is not being read
            self._expect_request()
            return
        if self._is_in_message:
            message = f"the request was not complete within {self.client_timeout_s:g} s"
            self._refuse(408, message, "request_timeout")
        self.transport.close()

    def _on_unread(self) -> None:
        """Cut the connection if it still waits for its client."""
        is_waiting = self.flow.write_paused or self.transport.is_closing()
        if is_waiting and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self, status: int, message: str, code: str) -> None:
        """Answer, unless an answer is on its way already, and close."""
        if self.transport.is_closing():
            return
        if self._can_answer():
            self.on_refused(status)
            self.transport.write(_whole_answer(ApiError(status, message, code=code)))
        self.transport.close()

    def _can_answer(self) -> bool:
        """Whether nothing has been written for the request being read, nor is owed before it."""
        if self.pipeline:
            return False
        if self._is_in_head:
            return self._is_idle
        return not self.cycle.response_started


def protocol_class(
    client_timeout_s: float, on_refused: Callable[[int], None]
) -> type[FrontProtocol]:
    """Build the class uvicorn makes a connection of."""
    fields = {"client_timeout_s": client_timeout_s, "on_refused": staticmethod(on_refused)}
    return type("BoundFrontProtocol", (FrontProtocol,), fields)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _whole_answer(error: ApiError) -> bytes:
    body = json.dumps(error.body).encode()
    phrase = HTTPStatus(error.status).phrase
    head = (
        f"HTTP/1.1 {error.status} {phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
