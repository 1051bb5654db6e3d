"""What a run pays for being watched: the load process's processor time per chunk, in turns.

Two runs a block against the truth server, one with an exporter that is scraped once a second and
one without; the exporter's own share is read from its page.
"""

import statistics
import tempfile
import threading
import time
import urllib.request
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

from harness.base.errors import SetupError
from harness.load.run_metrics import RunMetrics
from harness.load.runner import start_load
from harness.load.session import prepare
from harness.records.lock import RunLock
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.scenario.read import validate_scenario
from harness.server.truth.process import start_truth
from tools.bench_server.ratio import ratio, time_in_turns
from tools.bench_server.table import Table

N_TOKENS: Final = 64
SCRAPE_S: Final = 1.0
LAW: Final = """
schema = 1
name = "constant"
title = "Constant"
[ttft]
base_s = 0.005
[itl]
base_s = 0.002
[truth]
found = ["none"]
"""


def compare_runs(n_blocks: int) -> Table:
    """The table."""
    table = Table(
        "load_run",
        "A run that is scraped once a second beside one without --metrics-port",
        ("blocks", "chunks/s", "load process, us per chunk", "with / without", "exporter, % core"),
    )
    with tempfile.TemporaryDirectory() as folder:
        law = Path(folder) / "law.toml"
        law.write_text(LAW)
        with start_truth(law) as truth:
            runs = _Runs(Path(folder), truth.url)
            ways = {is_watched: partial(runs.once, is_watched) for is_watched in (True, False)}
            times = time_in_turns(ways, n_blocks)
    table.add(
        n_blocks,
        f"{statistics.median(runs.rates):.0f}",
        f"{statistics.median(times[False]) * 1e6:.1f}",
        ratio(times[True], times[False]),
        f"{statistics.median(runs.shares):.2f}",
    )
    return table


class _Runs:
    """Short runs of one cell.

    Attributes:
        rates: chunks a second of each run.
        shares: percent of a core that the exporter used between its scrapes, of each watched run.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self.rates: list[float] = []
        self.shares: list[float] = []

    def once(self, is_watched: bool) -> float:  # noqa: FBT001  what is compared
        """Processor seconds of the load process per chunk, inside its segments."""
        run = prepare(_scenario(), self._url, self._folder / "runs")
        metrics = RunMetrics(0 if is_watched else None)
        with RunLock(run) as lock, redirect_stderr(StringIO()):
            metrics.start(run)
            scraper = _Scraper(metrics.url)
            if start_load(run, self._url, lock).wait() not in {0, 5}:
                raise SetupError(f"the load failed; see {run.path}/load.log")
            scraper.stop()
            metrics.kill()
        if is_watched:
            self.shares.append(scraper.share)
        return self._per_chunk(run)

    def _per_chunk(self, run: RunFolder) -> float:
        rows = read_rows(run).table.select(["chunk_ns", "intended_ns", "done_ns"]).to_pandas()
        n_chunks = int(rows["chunk_ns"].map(len).sum())
        self.rates.append(n_chunks / (rows["done_ns"].max() - rows["intended_ns"].min()) * 1e9)
        return float(run.read_object("client.json")["cpu_s"]) / n_chunks


def _scenario() -> Any:
    return validate_scenario(
        {
            "schema": 1, "name": "bench", "title": "Bench", "seed": 1, "target": {"model": "truth"},
            "load": {"concurrency": 16, "requests_per_cell": 800, "segments_per_cell": 1},
            "output": {"tokens": N_TOKENS},
            "axes": {"prompt_tokens": [32]}, "analysis": {"axis": "prompt_tokens"},
        },
        "bench",
    )  # fmt: skip


class _Scraper:
    """Scrapes once a second, as Prometheus would; nothing without an address.

    Attributes:
        share: percent of a core that the exporter used from the second scrape to the last.
    """

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._is_over = threading.Event()
        self._seen: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Scrape no more."""
        self._is_over.set()
        self._thread.join()

    @property
    def share(self) -> float:
        """See above."""
        (began_s, before_s), (ended_s, after_s) = self._seen[1], self._seen[-1]
        return (after_s - before_s) / (ended_s - began_s) * 100

    def _run(self) -> None:
        while self._url is not None and not self._is_over.wait(SCRAPE_S):
            with urllib.request.urlopen(self._url, timeout=10) as answer:  # noqa: S310  our own
                lines = answer.read().decode().splitlines()
            (used,) = (
                x.split()[1] for x in lines if x.startswith("mc_exporter_cpu_seconds_total ")
            )
            self._seen.append((time.monotonic(), float(used)))
