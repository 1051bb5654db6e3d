"""Rows of a run counted by cell, in whatever pieces they come."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from harness.export.cell_counts import COLUMNS, CellCounts
from harness.export.histogram import Trace
from harness.records.trace import trace_id


class RunCounts:
    """Counts of one run.

    Attributes:
        n_rows: rows taken, warm-up included.
        cells: by cell id, those that anything was counted for.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        """`about` is what `run.json` says: the run's id, and each session's clock."""
        self._run = str(about["id"])
        self._offset_ns = {
            each["number"]: each.get("realtime_minus_monotonic_ns") for each in about["sessions"]
        }
        self.n_rows = 0
        self.cells = defaultdict[str, CellCounts](CellCounts)

    def add(self, table: pa.Table) -> None:
        """Count rows, each once: the caller gives none twice."""
        self.n_rows += table.num_rows
        rows = table.select(COLUMNS).to_pandas()
        for cell, each in rows[~rows["is_warmup"].astype(bool)].groupby("cell", sort=False):
            self.cells[str(cell)].add(each, list(self._traces(each)))

    def wall_s(self, session: int, monotonic_ns: float) -> float | None:
        """Seconds since the epoch of a stamp; None where the session's clock is not known."""
        offset_ns = self._offset_ns.get(session)
        if offset_ns is None or monotonic_ns != monotonic_ns:  # noqa: PLR0124  NaN
            return None
        return (int(monotonic_ns) + int(offset_ns)) // 1_000_000 / 1e3

    def _traces(self, rows: pd.DataFrame) -> Iterator[Trace]:
        columns = (rows[name] for name in ("session", "segment", "index", "done_ns"))
        for session, segment, index, done_ns in zip(*columns, strict=True):
            yield Trace(trace_id(self._run, session, segment, index), self.wall_s(session, done_ns))
