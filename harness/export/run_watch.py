"""A run that goes on, as metrics: its shards followed, its progress read, cell by cell.

Reads the run folder only; what is gone from it keeps its last value. Serving is `serve.py`.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.base.errors import RecordError
from harness.export.cell_counts import CellCounts
from harness.export.family import Point, families
from harness.export.page import Collect, Piece
from harness.export.run_counts import RunCounts
from harness.export.run_labels import cell_labels, factor_words, service_labels
from harness.metrics.catalogue import load as catalogue
from harness.metrics.catalogue.metric import Metric
from harness.plan.codec import plan_from_json
from harness.plan.plan import Cell
from harness.records.about import read_about
from harness.records.run import RunFolder
from harness.records.shard import SHARD
from harness.records.shard_tail import ShardTail
from harness.records.store import iter_rows, n_compacted
from harness.scenario.read import stored_scenario


class RunWatch:
    """One run, followed until its load ends.

    Attributes:
        is_up: the load process is at work, by the word of whoever started it.
    """

    def __init__(self, run: RunFolder) -> None:
        """Read what does not change.

        Raises:
            RecordError: the folder holds no run, or a damaged one.
        """
        scenario = stored_scenario(run)
        self._run = run
        self._scenario = scenario
        self._about = read_about(run)
        self._service = service_labels(scenario)
        self._planned_at = -1
        self._read_plan()
        self._tails: dict[str, ShardTail] = {}
        self._counts = RunCounts(self._about)
        self._progress: dict[str, Any] = {}
        self.is_up = True

    def refresh(self) -> None:
        """Take in what was written since the last time."""
        with contextlib.suppress(RecordError, OSError):
            self._read_plan()
        for path in sorted(self._run.shards.glob(f"*{SHARD}")):
            if path.name not in self._tails:
                try:
                    self._tails[path.name] = ShardTail(path)
                except OSError:  # its log is not there yet, or the run is being compacted
                    continue
        for tail in self._tails.values():
            table = tail.read_new()
            if table is not None:
                self._counts.add(table)
        self._read_compacted()
        self._read_progress()

    def pieces(self) -> Iterator[Piece]:
        """The page's parts: the run, then each cell of the plan."""
        yield Piece("run", None, self._collect_run)
        running = self._progress.get("cell") if self.is_up else None
        for cell in self._plan.cells:
            counts = self._counts.cells.get(cell.id)
            is_running = cell.id == running
            version = (counts.n if counts else 0, is_running)
            yield Piece(cell.id, version, self._collect_cell(cell, counts, is_running=is_running))

    @property
    def damaged(self) -> list[str]:
        """Shards that could not be followed to their end."""
        return [name for name, tail in self._tails.items() if tail.is_damaged]

    def close(self) -> None:
        """Let go of every shard."""
        for tail in self._tails.values():
            tail.close()

    def _read_plan(self) -> None:
        """The plan, where it is new: a run in rounds gets a longer one with each."""
        path = self._run.path / "plan.json"
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if changed != self._planned_at:
            self._plan = plan_from_json(self._run.read_json("plan.json"))
            self._labels = cell_labels(self._scenario, self._plan)
            self._planned_at = changed

    def _read_compacted(self) -> None:
        """Rows that went into the Parquet file before they were followed: count all anew."""
        if (n_compacted(self._run) or 0) <= self._counts.n_rows:
            return
        counts = RunCounts(self._about)
        try:
            for batch in iter_rows(self._run):
                counts.add(batch)
        except RecordError:
            return
        self._counts = counts

    def _read_progress(self) -> None:
        try:
            self._progress = self._run.read_object("progress.json")
        except RecordError:
            return

    def _collect_run(self) -> Iterator[Any]:
        run = str(self._about["id"])
        points = {
            catalogue.RUN_UP: [Point((run,), int(self.is_up))],
            catalogue.RUN_INFO: [
                Point((run, self._service[2], *self._service[:2], str(self._about["target"])), 1)
            ],
            catalogue.PLANNED: [Point((run,), self._plan.n_measured)],
            catalogue.USERS: list(self._users()),
        }
        return families(points)

    def _users(self) -> Iterator[Point]:
        n_users = self._progress.get("users")
        if n_users is not None:
            yield Point((), n_users if self.is_up else 0)

    def _collect_cell(self, cell: Cell, counts: CellCounts | None, *, is_running: bool) -> Collect:
        labels = self._labels[cell.id]
        words = factor_words(cell.factors)

        def collect() -> Iterator[Any]:
            points: dict[Metric, list[Point]] = {
                catalogue.CELL_RUNNING: [Point((*labels, words), int(is_running))]
            }
            if counts is not None:
                points |= dict(counts.points(labels))
            return families(points)

        return collect
