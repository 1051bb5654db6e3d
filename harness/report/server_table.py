"""What the server said of itself, cell by cell, beside what the client measured.

Columns that no cell fills are left out; a cell without figures says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.report import grid, quantity
from harness.report.schema import Number, Report, ServerFigures
from harness.report.text import line

SHOWN_ROWS: Final = 60
SHORT: Final = "measured for less than two scrapes"
NOT_SAID: Final = "the server did not say"

_COLUMNS: Final[
    tuple[tuple[str, Callable[[ServerFigures], Number], Callable[[float], str]], ...]
] = (
    ("KV in use, mean", lambda said: said.kv_usage_mean, quantity.percent),
    ("KV in use, most", lambda said: said.kv_usage_max, quantity.percent),
    ("Running, mean", lambda said: said.running_mean, quantity.number),
    ("Waiting, mean", lambda said: said.waiting_mean, quantity.number),
    ("Waiting, most", lambda said: said.waiting_max, quantity.number),
    ("Queue P99", lambda said: said.queue_p99_s, quantity.duration),
    ("Prefix hits", lambda said: said.prefix_hit_share, quantity.percent),
    ("Tokens per s", lambda said: said.output_tokens_per_s, quantity.number),
    ("Preemptions", lambda said: said.preemptions, quantity.number),
    ("In GC", lambda said: said.gc_pause_share, quantity.percent),
)


@dataclass(frozen=True)
class ServerRow:
    """One cell; None where there is no figure."""

    cell: str
    label: str
    scrapes: int
    entries: tuple[str | None, ...]
    reason: str


@dataclass(frozen=True)
class ServerTable:
    """The table; `engine` is the kind of server, empty where it is not known."""

    engine: str
    columns: tuple[str, ...]
    rows: tuple[ServerRow, ...]
    left_out: int
    caveats: tuple[str, ...]


def build_server_table(report: Report) -> ServerTable | None:
    """The table, or None where the target was not scraped or no figure came of it."""
    if report.telemetry is None:
        return None
    said = report.telemetry.cells
    told = [each for each in _COLUMNS if any(each[1](cell) is not None for cell in said)]
    if not told:
        return None
    varying = list(grid.varying_factors(report.cells))
    labels = {cell.id: grid.cell_label(cell, varying) for cell in report.cells}
    rows = [
        ServerRow(
            figures.cell,
            labels.get(figures.cell, figures.cell),
            figures.n_scrapes,
            tuple(_text(value(figures), show) for _, value, show in told),
            SHORT if figures.n_scrapes < 2 else NOT_SAID,
        )
        for figures in said
    ]
    return ServerTable(
        engine=line(report.telemetry.engine or "", 60),
        columns=tuple(title for title, _, _ in told),
        rows=tuple(rows[:SHOWN_ROWS]),
        left_out=max(0, len(rows) - SHOWN_ROWS),
        caveats=tuple(line(text) for text in report.telemetry.caveats),
    )


def _text(value: Number, show: Callable[[float], str]) -> str | None:
    return None if value is None else show(value)
