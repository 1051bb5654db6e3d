"""What goes out and what came back: one HTTP exchange as frozen data.

An exchange is complete in itself: decoding it needs no clock and no socket.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.records.request import Outcome, Stamps

MAX_ERROR_CHARS = 500


class BodyPiece(NamedTuple):
    """Body bytes of one HTTP chunk, or part of one, as they were read.

    Attributes:
        rx_ns: receive stamp of the read they came with.
        read_ns: user-space time of that read.
        data: the bytes.
        read: number of the read; pieces with the same number share a stamp.
        is_late: more was waiting before this read, or an earlier piece shares it: the stamp is an
            upper bound.
    """

    rx_ns: int
    read_ns: int
    data: bytes
    read: int
    is_late: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpRequest:
    """One request to send.

    Attributes:
        path: absolute path.
        body: the body; its length is sent as Content-Length.
        headers: further headers.
        method: HTTP method.
        is_finished: asked, with the body so far, when a stream falls silent: has the answer ended
            although the server keeps the connection open?
    """

    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "POST"
    is_finished: Callable[[Sequence[bytes]], bool] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One request and what became of it.

    Attributes:
        started_ns: when sending was asked for, before any connecting.
        sent_ns: just before the last byte of the request was handed to the operating system.
        headers_ns: receive stamp of the read that completed the response head.
        first_byte_ns: receive stamp of the first response byte.
        done_ns: receive stamp of the last byte.
        ended_ns: user-space time at which the exchange was over.
        status: HTTP status, None without a response head.
        headers: response headers, names in lower case, last one wins.
        chunks: body pieces in order.
        failure: what broke it on the transport, None for a complete response.
        error: bounded text of what went wrong.
        stamps: source of the receive stamps.
        rx_lag_ns: largest read time minus receive stamp; None without kernel stamps.
        is_reused: sent on a connection that an earlier request had used.
        is_cut_short: ended by `HttpRequest.is_finished`, not by the server.
    """

    started_ns: int
    sent_ns: int | None = None
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    done_ns: int | None = None
    ended_ns: int = 0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[BodyPiece, ...] = ()
    failure: Outcome | None = None
    error: str | None = None
    stamps: Stamps = Stamps.USER
    rx_lag_ns: int | None = None
    is_reused: bool = False
    is_cut_short: bool = False

    @property
    def body(self) -> bytes:
        """All body bytes."""
        return b"".join(piece.data for piece in self.chunks)

    @property
    def late_read(self) -> tuple[bool, ...]:
        """Per body piece, whether its stamp is only an upper bound."""
        return tuple(piece.is_late for piece in self.chunks)


def bounded(text: str) -> str:
    """The text on one line without control characters, cut to what a record stores."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= MAX_ERROR_CHARS else line[: MAX_ERROR_CHARS - 1] + "…"
