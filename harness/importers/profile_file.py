"""A profiler's file of any kind that is known: which it is, by what is in it, and its reader."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Final

from harness.base.errors import RecordError, SetupError
from harness.importers import nsight_compute, nsight_systems, nsight_systems_csv, torch_trace
from harness.importers.csv_table import LONGEST_LINE, MOST_PREAMBLE
from harness.importers.unpacked import Unpacked
from harness.records.kernel_counters import KernelCounters
from harness.records.profile import Profile

KINDS: Final = (
    "the torch profiler's Chrome trace (.json, .json.gz), Nsight Systems' SQLite export or trace "
    "report in CSV, Nsight Compute's CSV (--page raw) or .ncu-rep"
)
_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"
_HEAD: Final = 4096
_BUFFER: Final = 1 << 20


def read_profile(
    path: Path, passed: Callable[[int], object] = lambda _: None
) -> Profile | KernelCounters:
    """Read one file; `passed` hears how many of its bytes are behind, as they are.

    Raises:
        RecordError: it is not there, is of no known kind, or is broken.
        SetupError: it must be exported first; the message says how.
    """
    try:
        with _opened(path, passed) as (head, text):
            if path.suffix in {".nsys-rep", ".qdrep", ".qdstrm"}:
                raise SetupError(
                    f"{path}: Nsight Systems' own format; export it: "
                    f"nsys export --type sqlite {path.name}"
                )
            if path.suffix in {".ncu-rep", ".ncu-repz"}:
                return nsight_compute.read_ncu_report(path)
            if head.startswith(_SQLITE):
                return nsight_systems.read_nsight_sqlite(path)
            return _read_text(path, head, text)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise RecordError(f"{path}: a row cannot be read: {error}") from error
    except (EOFError, zlib.error) as error:
        raise RecordError(f"{path}: the compressed file is cut or broken: {error}") from error


def _read_text(path: Path, head: bytes, text: IO[str]) -> Profile | KernelCounters:
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        return torch_trace.read_torch_trace(text, str(path))
    columns = set() if b"\0" in head else _columns(text)
    text.seek(0)
    if nsight_compute.KERNEL in columns:
        return nsight_compute.read_ncu_csv(text, str(path))
    if columns:
        return nsight_systems_csv.read_nsight_csv(text, str(path))
    raise RecordError(f"{path}: got {head[:16]!r}..., allowed {KINDS}")


def _columns(text: IO[str]) -> set[str]:
    """The first line that is a header of either tool."""
    for line in islice(iter(lambda: text.readline(LONGEST_LINE), ""), MOST_PREAMBLE):
        cells = set(next(csv.reader([line.replace("\0", "")]), []))
        if nsight_compute.KERNEL in cells or ("Name" in cells and len(cells) > 2):
            return cells
    return set()


@contextmanager
def _opened(path: Path, passed: Callable[[int], object]) -> Iterator[tuple[bytes, IO[str]]]:
    """Its first bytes and its text, unpacked where it is packed."""
    with path.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP
        raw.seek(0)
        with gzip.open(raw) if is_packed else raw as plain:
            bounded = io.BufferedReader(Unpacked(plain, raw, passed), _BUFFER)
            head = bounded.read(_HEAD)
            bounded.seek(0)
            text = io.TextIOWrapper(bounded, encoding="utf-8-sig", errors="replace", newline="")
            yield head, text
