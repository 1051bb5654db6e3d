"""A profiler's file of any kind that is known: which it is, by its first bytes, and its reader."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from harness.base.errors import RecordError
from harness.importers.torch_trace import read_torch_trace
from harness.records.profile import Profile

KINDS: Final = "the torch profiler's Chrome trace (.json, .json.gz)"
_GZIP: Final = b"\x1f\x8b"
_HEAD: Final = 4096


def read_profile(path: Path) -> Profile:
    """Read one file.

    Raises:
        RecordError: it is not there, is of no known kind, or is broken.
    """
    try:
        with _opened(path) as (head, text):
            if head.lstrip()[:1] in {b"{", b"["}:
                return read_torch_trace(text, str(path))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise RecordError(f"{path}: the compressed file is cut or broken: {error}") from error
    raise RecordError(f"{path}: got {head[:16]!r}..., allowed {KINDS}")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[bytes, IO[str]]]:
    """Its first bytes and its text, unpacked where it is packed."""
    with path.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP
        raw.seek(0)
        with gzip.open(raw) if is_packed else raw as plain:
            head = plain.read(_HEAD)
            plain.seek(0)
            yield head, io.TextIOWrapper(plain, encoding="utf-8-sig", errors="replace")
