"""The header `traceparent` as a server receives it, and the same trace ids in what is written."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from harness.cli.records import Format, records
from harness.load.probe.listen import probe
from harness.records.trace import trace_id, traceparent
from tests.e2e.truth_process import records_of, scenario_values, truth_server
from tests.unit.load.test_engine import Run

pytestmark = pytest.mark.e2e


def chained() -> dict[str, Any]:
    """Two further calls before each answer."""
    values = scenario_values(requests_per_cell=6, segments_per_cell=1, warmup_requests=1)
    return {
        **values,
        "cot": {"mode": "chained", "step_tokens": 4},
        "axes": {"cot_depth": [0, 2]},
        "prompt_tokens": 32,
        "analysis": {"axis": "cot_depth"},
    }


def test_the_server_receives_the_ids_that_the_records_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every call has its header, a chain's calls one trace id; `records` prints the same ids."""
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, chained()).to_end()
        received = [entry["headers"]["traceparent"] for entry in truth.log()]
    session, rows = records_of(run.path)
    expected = [
        traceparent(trace_id(run.path.name, 1, row.segment, row.index), call)
        for row in rows
        for call in range(session.plan.cell(row.cell).n_calls)
    ]
    assert len(received) == len(set(received)) == 7 + 3 * 7
    assert sorted(received) == sorted(expected)
    records(run.path, Format.CSV, None)
    written = csv.DictReader(io.StringIO(capsys.readouterr().out))
    told = {(row["segment"], int(row["index"])): row["trace_id"] for row in written}
    assert told == {
        (row.segment, row.index): trace_id(run.path.name, 1, row.segment, row.index) for row in rows
    }


def test_a_probe_sends_ids_of_its_own() -> None:
    """Each of a probe's questions has another trace id, and another probe has others again."""
    with truth_server() as truth:
        for salt in ("one", "two"):
            probe(truth.url, model="truth", n=2, api_key=None, salt=salt, say=lambda _: None)
        received = [entry["headers"].get("traceparent") for entry in truth.log()]
    asked = [header for header in received if header is not None]
    assert len({header.split("-")[1] for header in asked}) == len(asked) > 40
