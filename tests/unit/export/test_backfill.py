"""A run that is over as series over time: what stands at each step, by hand."""

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.export.backfill import PastRun, add_history
from harness.export.openmetrics_file import OpenMetricsFile
from harness.plan.build import build_plan
from harness.records.columns import to_batch
from harness.records.request import Outcome, RequestRecord
from tests.make_records import MS, make_record, make_scenario

EPOCH_S = 1_000_000
OFFSETS_NS = {1: EPOCH_S * 10**9, 2: (EPOCH_S + 1000) * 10**9}
S = 1000 * MS
LABEL = re.compile(r'(\w+)="([^" ]*)"')
Way = dict[float, float]


def written(tmp_path: Path, *records: RequestRecord) -> dict[tuple[str, str, str], Way]:
    """By name, cell and outcome or bound: value by seconds since the first session's zero."""
    scenario = make_scenario()
    sessions = [
        {"number": n, "realtime_minus_monotonic_ns": offset} for n, offset in OFFSETS_NS.items()
    ]
    run = PastRun(
        scenario=scenario,
        plan=build_plan(scenario),
        about={"id": "run-1", "target": "http://127.0.0.1:1", "sessions": sessions},
        rows=pa.Table.from_batches([to_batch(records)]),
    )
    with OpenMetricsFile() as file:
        add_history(run, file)
        file.write(tmp_path / "run.om")
    ways: dict[tuple[str, str, str], Way] = defaultdict(dict)
    for line in (tmp_path / "run.om").read_text().splitlines():
        if not line.startswith("#"):
            series, value, stamp = line.rsplit(" ", 2)
            labels = dict(LABEL.findall(series))
            way = ways[series.partition("{")[0], labels.get("cell", ""), _last_label(labels)]
            at_s = float(stamp) - EPOCH_S
            assert not way or at_s > max(way)  # each time once, in order
            way[at_s] = float(value)
    return ways


def _last_label(labels: dict[str, str]) -> str:
    return labels.get("outcome") or labels.get("le") or ""


def at(start_s: float, **changes: Any) -> RequestRecord:
    """A request of 16 ms that starts then."""
    return make_record(start_ns=int(start_s * S), **changes)


def test_a_row_counts_at_the_first_step_after_its_end(tmp_path: Path) -> None:
    """Values stand where they changed, one step before, and at the end; they begin at zero."""
    ways = written(tmp_path, at(11), at(12), at(14.99), at(41), at(61, cell="c01"))
    assert ways["mc_load_requests_total", "c00", "ok_length"] == {
        10: 0, 15: 2, 20: 3, 40: 3, 45: 4, 65: 4,
    }  # fmt: skip
    assert ways["mc_load_requests_total", "c01", "ok_length"] == {60: 0, 65: 1}
    ttft = ways["mc_load_ttft_seconds_bucket", "c00", "0.01"]
    assert ttft == ways["mc_load_requests_total", "c00", "ok_length"]
    assert ways["mc_load_ttft_seconds_bucket", "c00", "0.0005"] == dict.fromkeys(ttft, 0)


def test_a_series_that_comes_later_begins_at_zero_too(tmp_path: Path) -> None:
    """The first failure in the middle is a rise from zero, so that `increase` sees it."""
    ways = written(tmp_path, at(11), at(51, outcome=Outcome.REJECTED))
    assert ways["mc_load_requests_total", "c00", "rejected"] == {50: 0, 55: 1}
    assert ways["mc_load_failures_total", "c00", ""] == {10: 0, 15: 0, 50: 0, 55: 1}


def test_up_and_the_running_cell_follow_the_sessions(tmp_path: Path) -> None:
    """Up while a session was at work, each on its own clock; 0 between, before and after."""
    ways = written(
        tmp_path,
        at(11), at(24), at(26, cell="c01", segment="c01-r0"), at(34, cell="c01", segment="c01-r0"),
        at(21, session=2), at(29, session=2),
    )  # fmt: skip
    up = ways["mc_load_up", "", ""]
    assert [at_s for at_s, value in up.items() if value] == [15, 20, 25, 30, 1025]
    assert (min(up), max(up)) == (5, 1030)
    first = ways["mc_load_cell_running", "c00", ""]
    assert [at_s for at_s, value in first.items() if value] == [15, 20, 1025]
    second = ways["mc_load_cell_running", "c01", ""]
    assert [at_s for at_s, value in second.items() if value] == [30]


def test_a_long_run_has_longer_steps(tmp_path: Path) -> None:
    """Ten hours are written in some 720 steps, all of one width."""
    up = list(written(tmp_path, at(10), at(36_000))["mc_load_up", "", ""])
    widths = {after - before for before, after in pairwise(up)}
    assert widths == {50.0}
    assert 700 < len(up) < 725


def test_warm_up_is_left_out(tmp_path: Path) -> None:
    """A warm-up row changes no count, and takes part in the run's time."""
    ways = written(tmp_path, at(1, is_warmup=True), at(11))
    assert ways["mc_load_requests_total", "c00", "ok_length"] == {10: 0, 15: 1}
    assert min(ways["mc_load_up", "", ""]) == pytest.approx(-5)
