"""The list of caveats, one line for each doubt and not one for each cell that has it."""

from collections.abc import Sequence
from typing import Final

from harness.report.schema import Report
from harness.report.text import line, short

_CELLS_NAMED: Final = 4
_TEXT_LIMIT: Final = 400


def gather_caveats(report: Report) -> list[str]:
    """The report's caveats in order; those that differ in the cell only are told together."""
    ids = {cell.id for cell in report.cells}
    cells_by_text: dict[str, list[str]] = {}
    for caveat in report.caveats:
        cell, colon, text = caveat.partition(": ")
        if colon and cell in ids:
            cells_by_text.setdefault(text, []).append(cell)
        else:
            cells_by_text.setdefault(caveat, [])
    return [_told(text, cells) for text, cells in cells_by_text.items()]


def _told(text: str, cells: Sequence[str]) -> str:
    said = line(text, _TEXT_LIMIT)
    if not cells:
        return said
    if len(cells) > _CELLS_NAMED:
        return f"{len(cells)} cells: {said}"
    return f"{', '.join(map(short, cells))}: {said}"
