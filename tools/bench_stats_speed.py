"""What intervals and the stopping rule cost in processor time, beside a sort of the same values.

    python -m tools.bench_stats_speed [--quick] [--json FILE]

Correlated log-normal values in four segments on two starts; medians over blocks in which what is
compared takes turns.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from harness.base.rng import generator
from harness.findings.evidence import by_segment
from harness.metrics.latency import ttft_s
from harness.stats.bed.marginals import Array, copula
from harness.stats.cell_intervals import cell_intervals
from harness.stats.stopping import judge_cell
from tools.bench_server.table import Table

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUANTILES = (0.5, 0.9, 0.99)
N_METRICS = 7
N_BLOCKS, N_BLOCKS_QUICK = 11, 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="tools.bench_stats_speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{N_BLOCKS_QUICK} blocks")
    parser.add_argument("--json", type=Path, help="also write the table here")
    options = parser.parse_args()
    n_blocks = N_BLOCKS_QUICK if options.quick else N_BLOCKS
    print(f"{n_blocks} blocks; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    table = measure(SIZES, n_blocks)
    if options.json:
        options.json.write_text(json.dumps(table.to_json(), indent=1), encoding="utf-8")


def measure(sizes: tuple[int, ...], n_blocks: int) -> Table:
    """Every size, without and with correlation."""
    columns = (
        "values",
        "phi",
        "sort",
        "three intervals",
        "of it sorts",
        "rows to intervals",
        "stop",
    )
    title = f"Processor time in ms of one metric; a cell's line is {N_METRICS} of them and one stop"
    table = Table("stats", title, (*columns, "a cell's line"))
    for n in sizes:
        for phi in (0.0, 0.9):
            values = np.exp(0.6 * copula(n, phi, generator(1, "speed", n, str(phi))))
            sort, intervals, rows, stop = _medians_ms(_jobs(values), n_blocks)
            line = N_METRICS * intervals + stop
            costs = (sort, intervals, intervals / sort, rows, stop, line)
            table.add(
                f"{n:,}",
                f"{phi:g}",
                *(f"{cost:.2g}" if cost < 100 else f"{cost:.0f}" for cost in costs),
            )
    return table


def _jobs(values: Array) -> tuple[Callable[[], object], ...]:
    parts = np.array_split(values, 4)
    rows = _rows(values)
    return (
        lambda: np.sort(values),
        lambda: cell_intervals(parts, QUANTILES, 0.95),
        lambda: cell_intervals(by_segment(rows, ttft_s(rows)), QUANTILES, 0.95),
        lambda: judge_cell(
            [parts[:2], parts[2:]], 0.99, half_width=0.05, planned=values.size, n_left=values.size
        ),
    )


def _rows(values: Array) -> pd.DataFrame:
    """Requests of one cell that take these seconds, as a run records them."""
    begin = np.arange(values.size, dtype=np.int64) * 1_000_000
    segment = np.repeat(np.arange(4), [part.size for part in np.array_split(values, 4)])
    frame = pd.DataFrame({"segment": segment.astype(str), "session": 1 + segment // 2})
    end = begin + (values * 1e9).astype(np.int64)
    return frame.assign(intended_ns=begin, first_token_ns=pd.array(end, dtype="Int64"))


def _medians_ms(jobs: tuple[Callable[[], object], ...], n_blocks: int) -> list[float]:
    blocks = [[_ms(job) for job in jobs] for _ in range(n_blocks + 1)][1:]
    return [statistics.median(times) for times in zip(*blocks, strict=True)]


def _ms(job: Callable[[], object]) -> float:
    """Processor time of one call; what is short is called until it can be read."""
    n_calls, begin = 0, time.process_time_ns()
    while not n_calls or time.process_time_ns() - begin < 2_000_000:
        job()
        n_calls += 1
    return (time.process_time_ns() - begin) / n_calls / 1e6


if __name__ == "__main__":
    main()
