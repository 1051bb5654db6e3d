"""Server-sent events: bytes in, events out, no I/O.

Lines end with CR, LF or CRLF, mixed and split anywhere; one leading byte-order mark is dropped;
comments and fields without meaning here are skipped. Data stays bytes until an event is whole, so
a character cut by the network is never seen. Each event carries the index of the chunk whose bytes
completed it, hence its receive stamp.

Source: WHATWG HTML, section "Server-sent events", with two deviations that measuring needs: an
event whose data is empty is counted and not dispatched (servers send it as a keep-alive), and the
event that the end of the stream leaves unterminated is reported, flagged.
"""

import re
from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"

_LINE_END = re.compile(rb"\r\n|\r|\n")


class SseEvent(NamedTuple):
    """One event.

    Attributes:
        data: the data lines, joined by LF.
        chunk: index of the chunk that completed it.
        event: event type, empty when none was given.
        id: last event id in force.
        is_unterminated: the stream ended before the blank line that closes an event.
    """

    data: bytes
    chunk: int
    event: str = ""
    id: str = ""
    is_unterminated: bool = False


class EventTooLarge(Exception):  # noqa: N818  named by the outcome it leads to
    """An event grew past the cap.

    Attributes:
        size: bytes of the event so far.
        limit: the cap.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"an event of at least {size:,} bytes; the limit is {limit:,}")


class SseDecoder:
    """Decodes one stream.

    Attributes:
        n_comments: comment lines seen (keep-alives, pings).
        n_empty: events without data or with empty data.
        retry_ms: last reconnection time asked by the server.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._tail: list[bytes] = []  # pieces of the line that is not complete yet
        self._tail_size = 0
        self._skip_lf = False
        self._is_first_line = True
        self._chunk = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = ""
        self._id = ""
        self.n_comments = 0
        self.n_empty = 0
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes, index: int) -> list[SseEvent]:
        """Events completed by this chunk.

        Raises:
            EventTooLarge: an event exceeds the cap.
        """
        self._chunk = index
        if self._is_one_plain_event(chunk):
            self._is_first_line = self._skip_lf = False
            self._require_size(len(chunk) - 2)
            return [SseEvent(chunk[6:-2], index, "", self._id)]
        events: list[SseEvent] = []
        for line in self._lines(chunk):
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        return events

    def _is_one_plain_event(self, chunk: bytes) -> bool:
        """Whether this is `data: something` and a blank line, nothing before or beside it.

        That is nearly every chunk of a stream, and needs no line-by-line work.
        """
        return (
            chunk.startswith(b"data: ")
            and chunk.endswith(b"\n\n")
            and len(chunk) > 8
            and chunk.count(b"\n") == 2
            and b"\r" not in chunk
            and not (self._tail or self._data or self._event)
        )

    def finish(self) -> list[SseEvent]:
        """The event left open by the end of the stream, if any; it is flagged."""
        if self._tail:
            line = self._strip_bom(b"".join(self._tail))
            self._tail, self._tail_size = [], 0
            if line:
                self._field(line)
        events: list[SseEvent] = []
        self._dispatch(events)
        return [event._replace(is_unterminated=True) for event in events]

    def _lines(self, chunk: bytes) -> list[bytes]:
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        has_cr = b"\r" in chunk
        if not has_cr and b"\n" not in chunk:
            self._keep(chunk)
            return []
        if self._tail:
            chunk = b"".join([*self._tail, chunk])
            self._tail, self._tail_size = [], 0
        lines = _LINE_END.split(chunk) if has_cr else chunk.split(b"\n")
        # A CR ends its line at once; an LF that follows in the next chunk belongs to it.
        self._skip_lf = has_cr and chunk.endswith(b"\r")
        self._keep(lines.pop())
        if self._is_first_line:
            lines[0] = self._strip_bom(lines[0])
        return lines

    def _strip_bom(self, line: bytes) -> bytes:
        if not self._is_first_line:
            return line
        self._is_first_line = False
        return line.removeprefix(BOM)

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._tail.append(piece)
        self._tail_size += len(piece)
        self._require_size(self._data_size + self._tail_size)

    def _require_size(self, size: int) -> None:
        if size > self._limit:
            raise EventTooLarge(size, self._limit)

    def _field(self, line: bytes) -> None:
        self._require_size(self._data_size + len(line))
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
        elif not name:
            self.n_comments += 1
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_ms = int(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        lines = self._data
        data = lines[0] if len(lines) == 1 else b"\n".join(lines)
        if data:
            events.append(SseEvent(data, self._chunk, self._event, self._id))
        elif lines or self._event:
            self.n_empty += 1
        if lines:
            self._data, self._data_size = [], 0
        self._event = ""
