"""Rounds of a run, in words: what was measured when, and why."""

from dataclasses import dataclass
from typing import Final

from harness.report.schema import Report

WHY: Final = {
    "grid": "the grid",
    "precision": "narrower intervals",
    "power": "whether there is a break",
    "refine": "the break's place",
    "confirm": "the break on a fresh start",
}
CELLS_SHOWN: Final = 12


@dataclass(frozen=True)
class RoundRow:
    """One round; `bar` is its share of the largest one, in percent."""

    number: int
    why: str
    cells: str
    n_requests: str
    bar: float


def build_rounds(report: Report) -> tuple[RoundRow, ...]:
    """A row a round; empty where everything was planned at once."""
    largest = max((each.n_requests for each in report.rounds), default=1)
    return tuple(
        RoundRow(
            number=each.number,
            why=", ".join(WHY[reason] for reason in each.why),
            cells=_cells(each.cells),
            n_requests=f"{each.n_requests:,}",
            bar=100 * each.n_requests / largest,
        )
        for each in report.rounds
    )


def _cells(names: list[str]) -> str:
    shown = ", ".join(names[:CELLS_SHOWN])
    more = len(names) - CELLS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
