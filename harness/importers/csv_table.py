"""A profiler's CSV: its header found below whatever the tool printed, its cells as they are.

Bounded in rows and in the length of a line; numbers are read by `number`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice
from typing import IO, Final

from harness.base.errors import RecordError

MOST_ROWS: Final = 5_000_000
LONGEST_LINE: Final = 1 << 20
MOST_PREAMBLE: Final = 1_000
"""Lines before the header, such as `==PROF==` ones."""
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def read_table(text: IO[str], file: str, column: str) -> tuple[list[str], Iterator[list[str]]]:
    """The header, which is the line that names `column`, and the rows below it.

    Raises:
        RecordError: there is no such header, or more than is allowed.
    """
    lines = _lines(text, file)
    for line in islice(lines, MOST_PREAMBLE):
        cells = next(csv.reader([line]), [])
        if column in cells:
            return cells, _rows(lines, file)
    raise RecordError(f"{file}: no header with {column!r} in its first {MOST_PREAMBLE} lines")


def number(cell: str) -> float | None:
    """A number, with separators of thousands or without; None where the cell holds none.

    A comma that is no such separator (`1,5`, `1.234,5`) might be a decimal one: that is none.
    """
    text = cell.strip()
    if "," in text and not _GROUPED.fullmatch(text):
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _rows(lines: Iterator[str], file: str) -> Iterator[list[str]]:
    for n, row in enumerate(csv.reader(lines)):
        if n >= MOST_ROWS:
            raise RecordError(f"{file}: more than {MOST_ROWS:,} rows; export fewer")
        if row:
            yield row


def _lines(text: IO[str], file: str) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise RecordError(f"{file}: a line of more than {LONGEST_LINE:,} characters")
        yield line.replace("\0", "")
