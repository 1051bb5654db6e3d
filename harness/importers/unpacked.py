"""A file's bytes as they are unpacked: bounded, and told how far the file has been read.

A packed file may hold a thousand times its size of nothing: reading stops where it holds more than
any profiler's text shrinks to, long before memory or patience end.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from harness.base.errors import RecordError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_BYTES: Final = 8 << 30
MOST_TIMES: Final = 200
"""Traces shrink to a tenth or a thirtieth, gzip ends at a thousandth."""
FREE_BYTES: Final = 64 << 20
"""What may be unpacked from a file of any size."""


class Unpacked(io.RawIOBase):
    """Bytes of `plain`, which unpacks `file` or is it; reading beyond the bounds is a RecordError.

    `passed` hears of each step how many bytes of the file, packed as it is, are behind.
    """

    def __init__(
        self,
        plain: io.BufferedIOBase,
        file: io.BufferedReader,
        passed: Callable[[int], object],
    ) -> None:
        super().__init__()
        self._plain, self._file, self._passed = plain, file, passed

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes; what is packed is unpacked anew."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place of the plain bytes."""
        return self._plain.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read on.

        Raises:
            RecordError: more than `MOST_BYTES`, or than `MOST_TIMES` what was read of the file.
        """
        n = self._plain.readinto(buffer)
        self._check(self._plain.tell(), self._file.tell())
        self._passed(self._file.tell())
        return n

    def _check(self, n: int, n_packed: int) -> None:
        name = self._file.name
        if n > MOST_BYTES:
            raise RecordError(f"{name}: more than {MOST_BYTES:,} bytes; profile fewer steps")
        if n > FREE_BYTES and n > MOST_TIMES * n_packed:
            raise RecordError(
                f"{name}: its first {n_packed:,} bytes unpack to {n:,}, more than {MOST_TIMES} "
                "times as many, which no profiler's text does; if it is one all the same, unpack "
                "it (gunzip) and give that"
            )
