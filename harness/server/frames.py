"""Length-prefixed JSON frames: how the HTTP front and the engine talk over their socket pair.

Four bytes of big-endian length, then that many bytes of UTF-8 JSON. JSON and not pickle: a frame
can carry values only, never code.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

_HEADER: Final = struct.Struct(">I")
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False)

Frame = dict[str, Any]


def encode_frame(frame: Frame) -> bytes:
    """Turn one frame into bytes."""
    body = _ENCODER.encode(frame).encode()
    return _HEADER.pack(len(body)) + body


class FrameReader:
    """Cuts a byte stream into frames, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames they complete."""
        self._buffer += data
        frames: list[Frame] = []
        begin = 0
        while len(self._buffer) - begin >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer, begin)
            end = begin + _HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append(json.loads(self._buffer[begin + _HEADER.size : end]))
            begin = end
        del self._buffer[:begin]
        return frames
