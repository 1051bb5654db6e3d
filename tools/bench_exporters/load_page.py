"""The load side's exporter: processor time of one scrape, over cells and over rows a second.

A run folder of plan and shard is written for each size; rows of the last cell are added between
scrapes, as a run does it.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from harness.export.process_tree import ProcessTree
from harness.export.run_watch import RunWatch
from harness.export.serve import RunPage
from harness.plan.build import build_plan
from harness.plan.codec import plan_to_json
from harness.records.request import Outcome, RequestRecord
from harness.records.run import RunFolder
from harness.records.shard import LOG, ShardWriter
from harness.scenario.read import validate_scenario
from tools.bench_server.table import Table

CELLS: Final = (4, 16, 64)
ROWS: Final = (0, 20, 200)
N_TOKENS: Final = 32
MS: Final = 1_000_000
ACCEPT: Final = "application/openmetrics-text;version=1.0.0"


def measure_page(n_blocks: int) -> Table:
    """The table: a share of one core at a scrape a second."""
    table = Table(
        "load_page",
        f"Load side's exporter, one scrape a second, answers of {N_TOKENS} tokens: % of one core "
        f"(median of {n_blocks})",
        ("cells", "page in MB", *(f"{n} rows/s" for n in ROWS)),
    )
    for n_cells in CELLS:
        with tempfile.TemporaryDirectory() as folder:
            run = _Run(Path(folder), n_cells)
            shares = [run.share(n_rows, n_blocks) for n_rows in ROWS]
            table.add(n_cells, f"{run.n_bytes / 1e6:.1f}", *(f"{each:.2f}" for each in shares))
            run.close()
    return table


class _Run:
    """A run of many cells, each with one row, and its page."""

    def __init__(self, folder: Path, n_cells: int) -> None:
        scenario = validate_scenario(
            {
                "schema": 1, "name": "bench", "title": "Bench", "seed": 1,
                "load": {"requests_per_cell": 1, "segments_per_cell": 1},
                "axes": {"prompt_tokens": list(range(10, 10 + n_cells))},
                "analysis": {"axis": "prompt_tokens"},
            },
            "bench",
        )  # fmt: skip
        run = RunFolder(folder)
        run.shards.mkdir()
        run.write_json("scenario.json", scenario.resolved())
        plan = build_plan(scenario)
        run.write_json("plan.json", plan_to_json(plan))
        run.write_json("run.json", _about())
        self._writer = ShardWriter(run.shards, "session-1-load-0")
        self._log = self._writer.path.with_suffix(LOG)
        self._n = 0
        self._add([cell.id for cell in plan.cells])
        self._last = plan.cells[-1].id
        self._page = RunPage(RunWatch(run), ProcessTree(), time.monotonic)
        self.n_bytes = len(self._page.write(ACCEPT)[0])

    def share(self, n_rows: int, n_blocks: int) -> float:
        """Percent of a core for a scrape a second, with this many new rows at each."""
        times = []
        for _ in range(n_blocks):
            self._add([self._last] * n_rows)
            began = time.thread_time()
            self._page.write(ACCEPT)
            times.append(time.thread_time() - began)
        return statistics.median(times) * 100

    def close(self) -> None:
        """End the shard."""
        self._writer.close()

    def _add(self, cells: list[str]) -> None:
        """Rows that are acknowledged when this returns."""
        if not cells:
            return
        for cell in cells:
            self._n += 1
            self._writer.append(_row(cell, self._n))
        self._writer.end_segment()
        while not self._log.read_text().endswith("\n") or self._n_written() < self._n:
            time.sleep(0.002)

    def _n_written(self) -> int:
        return int(self._log.read_text().splitlines()[-1].split()[0])


def _about() -> dict[str, object]:
    session = {"number": 1, "started": "now", "realtime_minus_monotonic_ns": 10**18}
    return {"id": "bench", "target": "http://127.0.0.1:1", "started": "now", "status": "running",
            "sessions": [session]}  # fmt: skip


def _row(cell: str, index: int) -> RequestRecord:
    start = index * MS
    tokens = tuple(start + (10 + 2 * i) * MS + 1000 * (index % 900) for i in range(N_TOKENS))
    return RequestRecord(
        outcome=Outcome.OK, cell=cell, segment=f"{cell}-r0", index=index, intended_ns=start,
        sent_ns=start + 30_000, first_token_ns=tokens[0], done_ns=tokens[-1], token_ns=tokens,
        chunk_ns=tokens, late_read=(False,) * N_TOKENS, rx_lag_ns=20_000, n_prompt_tokens=10,
        n_output_tokens=N_TOKENS,
    )  # fmt: skip
