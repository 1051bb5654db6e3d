"""A run that is over, taken in by a real Prometheus: its values are the records' again."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.base.errors import RecordError, SetupError
from harness.cli.analyse import analyse
from harness.cli.export import export
from harness.export.run_gauges import Q_OF
from harness.metrics.catalogue.metric import LATENCY_BUCKETS
from harness.records.request import RequestRecord
from harness.records.run import RunFolder
from tests.e2e.truth_process import records_of, scenario_values, truth_server
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus, promtool
from tests.unit.load.test_engine import Run

pytestmark = pytest.mark.e2e


def values() -> dict[str, Any]:
    found = scenario_values(requests_per_cell=150, segments_per_cell=2, warmup_requests=2)
    found["target"] |= {"service": 'chat "a"', "version": "7"}
    return found


def offset_ns(folder: Path) -> int:
    session = RunFolder(folder).read_object("run.json")["sessions"][0]
    return int(session["realtime_minus_monotonic_ns"])


@needs_prometheus
def test_prometheus_gives_back_what_was_recorded(tmp_path: Path) -> None:
    """Counts, sums, buckets, quantiles, the way there, and every finding of the report."""
    with truth_server(ttft_ms=40) as truth:
        run = Run(truth.url, tmp_path, values()).to_end()
    file, folder = tmp_path / "run.om", tmp_path / "prometheus"
    export(run.path, file)
    assert file.read_bytes().endswith(b"# EOF\n")
    made = promtool("tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "data"))
    assert made.returncode == 0, made.stderr
    _, records = records_of(run.path)
    measured = [each for each in records if not each.is_warmup]
    samples = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    end_s = float(max(line.split()[-1] for line in samples))
    with prometheus(folder, {}) as server:
        for cell in ("c00", "c01"):
            mine = [each for each in measured if each.cell == cell]
            _require_counts(server, cell, mine, end_s)
            _require_way(server, cell, mine, end_s, offset_ns(run.path))
        assert server.value("mc_load_up", end_s) == 0
        _require_findings(server, RunFolder(run.path), end_s)


def _where(cell: str) -> str:
    return f'{{service="chat \\"a\\"",version="7",scenario="tiny",cell="{cell}",path=""}}'


def _require_counts(
    server: Prometheus, cell: str, records: list[RequestRecord], end_s: float
) -> None:
    """The cell's last values."""
    where = _where(cell)
    ttft_s = [((each.first_token_ns or 0) - each.intended_ns) / 1e9 for each in records]
    assert server.value(f"mc_load_requests_total{where}", end_s) == 150
    assert server.value(f"mc_load_ttft_seconds_count{where}", end_s) == 150
    assert server.value(f"mc_load_ttft_seconds_sum{where}", end_s) == pytest.approx(sum(ttft_s))
    assert server.value(f"mc_load_output_tokens_total{where}", end_s) == 150 * 8
    for q in (0.5, 0.9, 0.99):
        true_s = float(np.quantile(ttft_s, q, method="inverted_cdf"))
        above = next(i for i, bound in enumerate(LATENCY_BUCKETS) if bound >= true_s)
        told = server.value(f"histogram_quantile({q}, mc_load_ttft_seconds_bucket{where})", end_s)
        assert LATENCY_BUCKETS[above - 1] <= told <= LATENCY_BUCKETS[above]


def _require_way(
    server: Prometheus, cell: str, records: list[RequestRecord], end_s: float, offset: int
) -> None:
    """At each step the count is that of the rows that had ended; before the first it is zero."""
    ended_s = [((each.done_ns or 0) + offset) / 1e9 for each in records]
    counted = server.query(f"mc_load_requests_total{_where(cell)}[1h]", end_s)[0]["values"]
    assert float(counted[0][1]) == 0
    assert len(counted) >= 2
    for at_s, n in counted:
        assert float(n) == sum(each <= at_s for each in ended_s)


def _require_findings(server: Prometheus, run: RunFolder, end_s: float) -> None:
    """Every quantile of the report that has a value, and no other; the verdict."""
    report = analyse(run)
    wanted = {
        (cell.id, metric, Q_OF[name], bound): value
        for cell in report.cells
        for metric, quantiles in cell.metrics.items()
        for name, each in quantiles.items()
        for bound, value in each.model_dump().items()
        if value is not None
    }
    told = {
        tuple(each["metric"][name] for name in ("cell", "metric", "q", "bound")): float(
            each["value"][1]
        )
        for each in server.query("mc_run_quantile_seconds", end_s)
    }
    assert told == pytest.approx(wanted)
    assert server.value(f'mc_run_verdict{{status="{report.verdict.status}"}}', end_s) == 1
    assert len(server.query("mc_run_verdict", end_s)) == 1


def test_what_cannot_be_exported_is_told(tmp_path: Path) -> None:
    """No run, no folder for the file, no wall clock, a report of something else: each says so."""
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, scenario_values(requests_per_cell=8)).to_end()
    folder = RunFolder(run.path)
    with pytest.raises(RecordError, match="no run here"):
        export(tmp_path / "none", tmp_path / "a.om")
    with pytest.raises(SetupError, match="there is no folder"):
        export(run.path, tmp_path / "none" / "a.om")
    folder.write_json("report.json", {"schema": 1})
    with pytest.raises(RecordError, match="write it again: tailbreak report"):
        export(run.path, tmp_path / "a.om")
    (run.path / "report.json").unlink()
    about = folder.read_object("run.json")
    del about["sessions"][0]["realtime_minus_monotonic_ns"]
    folder.write_json("run.json", about)
    with pytest.raises(RecordError, match="session 1 was recorded without the wall clock"):
        export(run.path, tmp_path / "a.om")
    shutil.rmtree(folder.shards)
    folder.shards.mkdir()
    with pytest.raises(RecordError, match="nothing to write"):
        export(run.path, tmp_path / "a.om")
    assert not (tmp_path / "a.om").exists()
