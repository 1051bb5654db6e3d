"""One client's connection: HTTP in, tokens out at their times, each stamped just before its write.

One request at a time; what is asked meanwhile waits. A stream's head leaves with its first token
and its end with its last: every token is one write.
"""

import asyncio
import time
from collections import deque
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httptools

from harness.server.truth import messages
from harness.server.truth.latency import Planted
from harness.server.truth.log import Entry
from harness.server.truth.messages import Ask, BadRequest
from harness.server.truth.planter import Planter

MAX_BODY_BYTES: Final = 16 * 2**20
KEPT_HEADERS: Final = 64
SECRETS: Final = {"authorization", "cookie", "x-api-key", "proxy-authorization"}


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client."""

    def __init__(self, planter: Planter) -> None:
        self._planter = planter
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[str, str, dict[str, str], bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._entry: Entry | None = None
        self._start_message()

    def _start_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """It has left; what was under way ends here."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._waiting.clear()
        self._end_entry()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._write(messages.error_response(400, f"no valid HTTP: {error}"))
            self._close()

    # the parser's side

    def on_message_begin(self) -> None:
        """Parser callback: a request starts."""
        self._start_message()

    def on_url(self, url: bytes) -> None:
        """Parser callback: its target, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback: a header."""
        if len(self._headers) < KEPT_HEADERS:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        """Parser callback: a part of its body."""
        self._size += len(data)
        if self._size <= MAX_BODY_BYTES:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Parser callback: it is whole."""
        method = self._parser.get_method().decode("latin-1")
        url = self._url.decode("latin-1")
        if self._size > MAX_BODY_BYTES:
            self._write(messages.error_response(413, f"a body of more than {MAX_BODY_BYTES} bytes"))
            self._close()
            return
        self._waiting.append((method, url, self._headers, b"".join(self._body)))
        if self._entry is None:
            self._answer_next()

    # answering

    def _answer_next(self) -> None:
        while self._waiting and self._entry is None and self._transport is not None:
            self._answer(*self._waiting.popleft())

    def _answer(self, method: str, url: str, headers: dict[str, str], data: bytes) -> None:
        target = urlsplit(url)
        try:
            if method == "POST" and target.path in messages.READERS:
                ask = messages.READERS[target.path](messages.parse_object(data))
                self._plant(ask, headers)
            else:
                self._write(self._plain(method, target.path, parse_qs(target.query), data))
        except BadRequest as error:
            self._write(messages.error_response(400, str(error)))

    def _plain(self, method: str, path: str, query: dict[str, list[str]], data: bytes) -> bytes:
        """The answer of the routes that plant nothing."""
        value: Any
        match method, path:
            case "GET", "/v1/models":
                value = {"object": "list", "data": [{"id": "truth", "object": "model"}]}
            case "GET", "/healthz":
                value = {"status": "ok"}
            case "GET", "/log":
                value = self._planter.log.page(_after(query))
            case "POST", "/tokenize" if self._planter.law.tokenizes:
                value = messages.tokenize(messages.parse_object(data))
            case _:
                return messages.error_response(404, f"no route {method} {path}")
        return messages.json_response(200, value)

    def _plant(self, ask: Ask, headers: dict[str, str]) -> None:
        """Begin an answer: its first token is due when the law says."""
        entry, planted = self._planter.begin(ask, without_secrets(headers))
        self._entry = entry
        if planted is None:
            entry.done_ns = time.monotonic_ns()
            self._write(messages.error_response(entry.status, "planted"))
            self._finish()
        elif ask.is_stream:
            self._schedule(entry.arrival_ns / 1e9 + planted.ttft_s, ask, planted, 0)
        else:
            whole_s = planted.ttft_s + (ask.n_tokens - 1) * planted.itl_s
            loop = asyncio.get_running_loop()
            due_s = entry.arrival_ns / 1e9 + whole_s
            self._timer = loop.call_at(due_s, self._send_whole, messages.whole_answer(ask), ask)

    def _schedule(self, due_s: float, ask: Ask, planted: Planted, i: int) -> None:
        """Have token `i` sent at `due_s`; its bytes are ready before."""
        data = messages.token_chunk(ask, i)
        if i == 0:
            data = messages.STREAM_HEAD + data
        if i + 1 == ask.n_tokens:
            data += messages.stream_end(ask)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(due_s, self._send_token, data, due_s, ask, planted, i)

    def _send_token(self, data: bytes, due_s: float, ask: Ask, planted: Planted, i: int) -> None:
        entry, transport = self._entry, self._transport
        assert entry is not None
        assert transport is not None
        entry.n_blocked += transport.get_write_buffer_size() > 0
        entry.token_ns.append(time.monotonic_ns())
        transport.write(data)
        if i + 1 < ask.n_tokens:
            self._schedule(due_s + planted.itl_s, ask, planted, i + 1)
        else:
            entry.done_ns = entry.token_ns[-1]
            self._finish()

    def _send_whole(self, data: bytes, ask: Ask) -> None:
        entry = self._entry
        assert entry is not None
        entry.done_ns = time.monotonic_ns()
        entry.token_ns = [entry.done_ns] * ask.n_tokens
        self._write(data)
        self._finish()

    def _finish(self) -> None:
        """The answer is written: take the next request."""
        self._timer = None
        self._end_entry()
        self._answer_next()

    def _end_entry(self) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            self._planter.end(entry)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def without_secrets(headers: dict[str, str]) -> dict[str, str]:
    """Headers with each credential as a digest: enough to check that it was sent."""
    return {
        name: messages.digest(value) if name in SECRETS else value
        for name, value in headers.items()
    }


def _after(query: dict[str, list[str]]) -> int:
    """The number after which a page of the log begins."""
    text = query.get("after", ["0"])[-1]
    if not text.isdecimal() or len(text) > 15:
        raise BadRequest("after: allowed is a whole number")
    return int(text)
