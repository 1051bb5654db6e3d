"""The bytes of one HTTP/1.1 response on their way to an exchange; no I/O.

Fed with each read and its stamps, it keeps the body pieces as the server framed them (one HTTP
chunk, one piece) and knows how the response ends: by length, by last chunk, or by closing.
"""

from typing import Final

import httptools

from harness.load.client.exchange import BodyPiece
from harness.records.request import Outcome

MAX_HEAD_BYTES: Final = 256 * 1024
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
N_SHOWN_BYTES: Final = 80


class ResponseError(Exception):
    """The peer does not speak HTTP as it should."""


class ResponseReader:
    """Collects one response.

    Attributes:
        status: status code once the head is complete.
        headers: header fields, names in lower case.
        pieces: body pieces so far.
        first_byte_ns: receive stamp of the first byte.
        headers_ns: receive stamp of the read that completed the head.
        last_ns: receive stamp of the last read.
        max_lag_ns: largest read time minus receive stamp.
        is_complete: the response has ended.
        has_leftover: bytes came after its end; the connection must not be used again.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.pieces: list[BodyPiece] = []
        self.first_byte_ns: int | None = None
        self.headers_ns: int | None = None
        self.last_ns: int | None = None
        self.max_lag_ns = 0
        self.is_complete = False
        self.has_leftover = False
        self._is_interim = False
        self._keep_alive = False
        self._head_size = 0
        self._body_size = 0
        self._start = b""
        self._rx_ns = 0
        self._read_ns = 0
        self._read = -1
        self._is_late = False

    def feed(
        self, data: bytes | memoryview, rx_ns: int, read_ns: int, *, was_queued: bool = False
    ) -> None:
        """Take what one read brought.

        `was_queued`: the read before this one left data behind, so this stamp says little.

        Raises:
            ResponseError: no HTTP, or past a size limit.
        """
        if self.first_byte_ns is None:
            self.first_byte_ns = rx_ns
            self._start = bytes(data[:N_SHOWN_BYTES])
        self.last_ns = self._rx_ns = rx_ns
        self._read_ns = read_ns
        self.max_lag_ns = max(self.max_lag_ns, read_ns - rx_ns)
        self._read += 1
        self._is_late = was_queued
        if self.headers_ns is None:
            self._require_head_size(len(data))
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self.is_complete:
                self.has_leftover = True
                return
            self._raise(error)

    def end_of_stream(self) -> tuple[Outcome, str] | None:
        """What the peer's closing means: None where it ends the response properly."""
        if self.is_complete:
            return None
        if self.first_byte_ns is None:
            return Outcome.RESET, "the server closed the connection before any response byte"
        if self.headers_ns is None:
            return Outcome.RESET, "the server closed the connection inside the response head"
        if self._ends_by_closing:
            self.is_complete = True
            self._keep_alive = False
            return None
        return Outcome.TRUNCATED, "the server closed the connection inside the body"

    @property
    def can_be_reused(self) -> bool:
        """Whether the connection may carry another request."""
        return self.is_complete and self._keep_alive and not self.has_leftover

    @property
    def _ends_by_closing(self) -> bool:
        is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return not is_chunked and "content-length" not in self.headers

    def on_message_begin(self) -> None:
        """Parser callback: a response starts; a second final one was never asked for."""
        if self.is_complete:
            self.has_leftover = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback: a header, or a trailer after the last chunk."""
        if self.status is None:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Parser callback: the head is whole; 1xx heads announce another."""
        if self.is_complete:
            return
        status = self._parser.get_status_code()
        self._is_interim = 100 <= status < 200
        if self._is_interim:
            self.headers.clear()
            return
        self.status = status
        self.headers_ns = self._rx_ns

    def on_body(self, data: bytes) -> None:
        """Parser callback: body bytes of one chunk."""
        if self.is_complete:
            return
        self._body_size += len(data)
        self.pieces.append(BodyPiece(self._rx_ns, self._read_ns, data, self._read, self._is_late))
        self._is_late = True

    def on_message_complete(self) -> None:
        """Parser callback: the response has ended."""
        if self._is_interim or self.is_complete:
            return
        self.is_complete = True
        self._keep_alive = self._parser.should_keep_alive()

    @property
    def is_oversized(self) -> bool:
        """Whether the body has passed the limit of what is kept in memory."""
        return self._body_size > MAX_BODY_BYTES

    def _require_head_size(self, n: int) -> None:
        self._head_size += n
        if self._head_size > MAX_HEAD_BYTES + 65536:
            raise ResponseError(f"a response head of more than {MAX_HEAD_BYTES:,} bytes")

    def _raise(self, error: httptools.HttpParserError) -> None:
        raise ResponseError(f"no valid HTTP: {error}; starts with {self._start!r}") from error
