"""Rows as a Markdown table, aligned so that a terminal shows it well too.

Numbers are rounded to what their intervals can carry; JSON has them in full (`Row.to_json`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kernels.bench.study import PEERS

if TYPE_CHECKING:
    from kernels.bench.study import Row
    from kernels.bench.timing import Interval

HEAD: Final = (
    "shape",
    "threads",
    "who",
    "median ms (95 %)",
    "wall ms",
    "runs",
    *(f"x {peer}" for peer in PEERS),
    "MB moved",
    "floor share",
    "rate",
    "target",
)
LEGEND: Final = """\
median ms: processor time of one thread, wall time of several, with its interval;
runs: rounds x calls. x PEER: how many times longer PEER takes than this row.
MB moved: the least the op must read and write; floor share: the time in which
memory moves that, over the median (100 %: as fast as memory allows)."""


def cells(row: Row) -> tuple[str, ...]:
    """Give one row's cells, in the order of `HEAD`."""
    return (
        row.shape,
        str(row.n_threads),
        row.contender + (" *" if row.note else ""),
        _bounded(row.cost_s, 1e3),
        _short(row.wall_s * 1e3),
        f"{row.n_rounds}x{row.n_calls}",
        *(_short(row.ratios[peer].value) if peer in row.ratios else "" for peer in PEERS),
        _short(row.n_bytes / 1e6),
        f"{row.floor_share:.1%}",
        _rate(row),
        "; ".join(map(str, row.verdicts)),
    )


def notes(rows: Iterable[Row]) -> Iterator[str]:
    """What must be read with the table: every miss with its reason, every inexact peer once."""
    rows = list(rows)
    for row in rows:
        if row.reason:
            missed = "; ".join(str(each) for each in row.verdicts if not each.is_met)
            yield f"{row.op}, {row.shape}, threads {row.n_threads}: {missed}: {row.reason}"
    for contender, note in dict.fromkeys((row.contender, row.note) for row in rows if row.note):
        yield f"* {contender}: {note}"


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table, aligned to be read as it is; columns that are empty throughout go."""
    lines = [tuple(head), *map(tuple, body)]
    used = [i for i in range(len(head)) if any(line[i] for line in lines[1:])]
    widths = [max(len(line[i]) for line in lines) for i in used]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    shown = [
        "| " + " | ".join(line[i].ljust(w) for i, w in zip(used, widths, strict=True)) + " |"
        for line in lines
    ]
    return "\n".join([shown[0], rule, *shown[1:]])


def _rate(row: Row) -> str:
    if row.rate is None:
        return ""
    scale, prefix = (1e9, "G") if row.rate >= 1e9 else (1e6, "M")
    return f"{_short(row.rate / scale)} {prefix}{row.item}/s"


def _bounded(interval: Interval, scale: float) -> str:
    value, low, high = (each * scale for each in (interval.value, interval.low, interval.high))
    return f"{_short(value)} ({_short(low)}-{_short(high)})"


def _short(value: float) -> str:
    """Three significant digits, never an exponent."""
    if not math.isfinite(value) or value == 0:
        return "?" if value else "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"
