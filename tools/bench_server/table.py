"""A table of results: printed as it grows, kept for the JSON file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tools.bench_server.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence


class Table:
    """Rows under fixed columns."""

    def __init__(self, name: str, title: str, columns: Sequence[str]) -> None:
        self.name, self.title, self.columns = name, title, tuple(columns)
        self.rows: list[tuple[Any, ...]] = []
        print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)

    def add(self, *cells: Any) -> None:
        """Print a row."""
        assert len(cells) == len(self.columns)
        self.rows.append(cells)
        print(f"| {' | '.join(map(_shown, cells))} |", flush=True)

    def to_json(self) -> dict[str, Any]:
        """Give rows as objects; a ratio as its value, bounds and number of blocks."""
        rows = [dict(zip(self.columns, map(_plain, cells), strict=True)) for cells in self.rows]
        return {"title": self.title, "rows": rows}


def _shown(cell: Any) -> str:
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _plain(cell: Any) -> Any:
    """Give what JSON can hold: it knows no infinity."""
    if not isinstance(cell, Ratio):
        return cell
    return {name: value if math.isfinite(value) else None for name, value in cell._asdict().items()}
