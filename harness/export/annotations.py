"""A finished run as marks on a time axis: the run, its segments, what was found, the verdict.

Regions and not points, so that a board shows which cell was measured when. What was found has no
time of its own and stands at the run's end. The same run always gives the same marks, so that a
second posting can leave out what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from harness.findings.finding import Breakpoint, Cell, Verdict
from harness.findings.words import break_sentence, where_words

TAG: Final = "tailbreak"
MAX_SEGMENTS: Final = 500
"""A board with more regions than that shows nothing but regions."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One annotation.

    Attributes:
        tags: `tailbreak`, `run:<id>`, and what it is about.

    Units:
        Milliseconds since 1970, as Grafana has them.
    """

    start_ms: int
    end_ms: int
    text: str
    tags: tuple[str, ...]


def marks_of(
    *,
    about: Mapping[str, Any],
    rows: pd.DataFrame,
    cells: Sequence[Cell],
    breakpoints: Sequence[Breakpoint],
    verdict: Verdict,
) -> list[Mark]:
    """Everything of a run that has a time; sessions without a wall clock are left out."""
    offsets = {
        each["number"]: each["realtime_minus_monotonic_ns"]
        for each in about["sessions"]
        if each.get("realtime_minus_monotonic_ns") is not None
    }
    timed = rows[rows["session"].isin(offsets) & rows["done_ns"].notna()]
    if timed.empty:
        return []
    wall = timed.assign(
        start=timed["intended_ns"] + timed["session"].map(offsets),
        end=timed["done_ns"] + timed["session"].map(offsets),
    )
    run = (TAG, f"run:{about['id']}")
    start, end = _ms(wall["start"].min()), _ms(wall["end"].max())
    whole = Mark(start_ms=start, end_ms=end, text=f"run {about['id']}", tags=(*run, "run"))
    found = [
        Mark(
            start_ms=end,
            end_ms=end,
            text=break_sentence(each),
            tags=(*run, "breakpoint", f"metric:{each.metric}", f"axis:{each.axis}"),
        )
        for each in breakpoints
        if each.kind not in {"none", "gradual"}
    ]
    said = Mark(
        start_ms=end,
        end_ms=end,
        text=f"{verdict.status}: {verdict.text}",
        tags=(*run, "verdict", f"verdict:{verdict.status}"),
    )
    return [whole, *_segments(wall, cells, run), *found, said]


def _segments(wall: pd.DataFrame, cells: Sequence[Cell], run: tuple[str, ...]) -> Iterator[Mark]:
    """One region a segment; none at all where there are too many to see anything."""
    factors = {cell.id: where_words(cell.factors) for cell in cells}
    groups = wall.groupby(["session", "segment", "cell"], sort=True)
    if groups.ngroups > MAX_SEGMENTS:
        return
    for (_, _, cell), part in groups:
        yield Mark(
            start_ms=_ms(part["start"].min()),
            end_ms=_ms(part["end"].max()),
            text=f"cell {cell} {factors.get(str(cell), '')}".strip(),
            tags=(*run, "cell", f"cell:{cell}"),
        )


def _ms(ns: float) -> int:
    return int(ns) // 1_000_000
