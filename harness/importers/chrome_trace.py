"""A Chrome trace, event by event, without ever holding the file: gigabytes are usual.

Knows the format and nothing of who wrote it (`harness.importers.torch_trace` does). One value and
the depth of nesting are bounded; the text is by whoever opens it (`harness.importers.unpacked`).
Source: Trace Event Format (JSON object and JSON array form).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any, Final

from harness.base.errors import RecordError

MOST_OF_A_VALUE: Final = 16 << 20
CHUNK: Final = 1 << 20
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_EVENTS: Final = "traceEvents"


def read_events(text: IO[str], file: str, head: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every event; what the object holds under `head`'s keys is there after the last one.

    Raises:
        RecordError: no such JSON, or a value that is too long.
    """
    scanner = _Scanner(text, file)
    if scanner.take("["):
        yield from scanner.items()
        return
    if not scanner.take("{"):
        raise scanner.problem("this is no JSON object or list")
    if scanner.take("}"):
        return
    while True:
        key = scanner.value()
        if not scanner.take(":"):
            raise scanner.problem("a ':' is missing")
        if key == _EVENTS and scanner.take("["):
            yield from scanner.items()
        else:
            value = scanner.value()
            if str(key) in head:
                head[str(key)] = value
        if scanner.take("}"):
            return
        if not scanner.take(","):
            raise scanner.problem("a ',' or '}' is missing")


class _Scanner:
    """Values out of a text that is read as it is needed."""

    def __init__(self, text: IO[str], file: str) -> None:
        self._text = text
        self._file = file
        self._decoder = json.JSONDecoder(strict=False)
        self._buffer = ""
        self._at = 0
        self._n_passed = 0
        self._is_over = False

    def take(self, sign: str) -> bool:
        """Whether the next sign is this one; it is passed then."""
        self._skip_space()
        if not self._buffer.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def items(self) -> Iterator[dict[str, Any]]:
        """The objects of a list whose bracket has been taken; other values are passed over."""
        if self.take("]"):
            return
        while True:
            value = self.value()
            if isinstance(value, dict):
                yield value
            if self.take("]"):
                return
            if not self.take(","):
                raise self.problem("a ',' or ']' is missing")

    def value(self) -> Any:
        """The next value."""
        self._skip_space()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except RecursionError as error:
                raise self.problem("it is nested too deep") from error
            except ValueError as error:
                if self._is_over:
                    raise self.problem("the text ends or breaks off in a value") from error
                if len(self._buffer) - self._at > MOST_OF_A_VALUE:
                    raise self.problem(
                        f"no value of at most {MOST_OF_A_VALUE:,} characters stands here"
                    ) from error
            else:
                if end < len(self._buffer) or self._is_over:  # a number may go on
                    self._at = end
                    return value
            self._fill()

    def problem(self, what: str) -> RecordError:
        """An error that says where."""
        place = self._n_passed + self._at
        return RecordError(
            f"{self._file}: character {place:,}: {what}; allowed a Chrome trace in JSON, whole"
        )

    def _skip_space(self) -> None:
        while True:
            passed = _SPACE.match(self._buffer, self._at)
            self._at = passed.end() if passed is not None else self._at
            if self._at < len(self._buffer) or self._is_over:
                return
            self._fill()

    def _fill(self) -> None:
        """Read on; twice what is held, so that a long value is not tried too often."""
        self._n_passed += self._at
        held = self._buffer[self._at :]
        more = self._text.read(max(CHUNK, len(held)))
        self._is_over = not more
        self._buffer, self._at = held + more, 0
