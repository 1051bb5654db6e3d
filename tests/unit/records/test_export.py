"""Rows for other programs: what is written can be read back, whatever state the run is in."""

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli.records import DERIVED
from harness.plan.build import build_plan
from harness.plan.codec import plan_to_json
from harness.records.columns import COLUMNS, to_batch
from harness.records.export import write_csv, write_json_lines
from harness.records.request import Outcome, RequestRecord
from harness.records.run import RunFolder, new_run_id
from harness.records.shard import ShardWriter
from harness.records.store import PARQUET, compact, iter_rows, read_rows
from tests.cli_process import command
from tests.make_records import make_record, make_scenario, records_of

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FAILED = make_record(
    outcome=Outcome.HTTP_ERROR,
    error='=HTTP 500: "boom",\nline two',
    first_token_ns=None,
    first_output_ns=None,
    done_ns=None,
    token_ns=(),
    chunk_ns=(),
    late_read=(),
    n_output_tokens=None,
    anomalies={"comment": 2},
)


def make_run(folder: Path, rows: list[RequestRecord], status: str = "complete") -> RunFolder:
    """A run folder whose rows are still in their shard."""
    run = RunFolder.create(folder, new_run_id("small", STARTED))
    about = {"id": run.id, "target": "http://h", "started": "2026", "status": status}
    run.write_json("run.json", about)
    run.write_json("plan.json", plan_to_json(build_plan(make_scenario())))
    writer = ShardWriter(run.shards, "w0")
    for row in rows:
        writer.append(row)
    writer.close()
    return run


def export(run: RunFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("records", str(run.path), *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run of the small plan, with one failed request at its end."""
    rows = records_of(build_plan(make_scenario()))
    made = make_run(tmp_path_factory.mktemp("run"), [*rows, FAILED])
    compact(made)
    return made


@pytest.fixture(scope="module")
def shown(run: RunFolder) -> list[dict[str, str]]:
    """The run as CSV."""
    return read_csv(export(run).stdout)


def test_csv_has_every_column_of_every_row(run: RunFolder, shown: list[dict[str, str]]) -> None:
    """The stored columns, the plan's factors and the latencies, by name."""
    rows = shown
    table = read_rows(run).table
    assert len(rows) == table.num_rows
    added = ["prompt_tokens", "accelerated", *DERIVED, "dispatch_lag_s", "trace_id"]
    assert list(rows[0]) == [*COLUMNS, *added]
    for row, stored in zip(rows, table.to_pylist(), strict=True):
        assert json.loads(row["token_ns"]) == stored["token_ns"]
        assert json.loads(row["phases"]) == dict(stored["phases"])
        assert row["accelerated"] in {"true", "false"}
    first = rows[0]
    ttft = (int(first["first_token_ns"]) - int(first["intended_ns"])) / 1e9
    assert float(first["ttft_s"]) == pytest.approx(ttft)


def test_what_did_not_happen_is_empty_and_no_text_is_a_formula(
    shown: list[dict[str, str]],
) -> None:
    """A failed request has no first token: an empty cell, not 0; its error cannot be executed."""
    failed = shown[-1]
    assert failed["first_token_ns"] == failed["ttft_s"] == failed["n_output_tokens"] == ""
    assert failed["error"] == "'" + str(FAILED.error)
    assert json.loads(failed["anomalies"]) == {"comment": 2}


def test_json_lines_give_the_rows_back(run: RunFolder) -> None:
    """One object a line with native lists and maps, null where nothing happened."""
    lines = export(run, "--format", "json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == read_rows(run).table.num_rows
    failed = rows[-1]
    assert (failed["ttft_s"], failed["token_ns"], failed["error"]) == (None, [], FAILED.error)
    assert failed["anomalies"] == {"comment": 2}
    assert {row["prompt_tokens"] for row in rows} == {64, 128}


def test_parquet_goes_into_a_file_and_nowhere_else(run: RunFolder, tmp_path: Path) -> None:
    """Binary is not printed: exit 2 and what to do; the file holds the same rows."""
    refused = export(run, "--format", "parquet")
    assert refused.returncode == 2
    assert "--output" in refused.stderr
    done = export(run, "--format", "parquet", "--output", str(tmp_path / "rows.parquet"))
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == read_rows(run).table.num_rows
    assert table.column("ttft_s").null_count == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_killed_run_is_exported_from_its_torn_shard(tmp_path: Path) -> None:
    """No Parquet yet, the shard's tail cut: the whole batches are there, and the doubt is said."""
    run = make_run(tmp_path, [make_record(index=i) for i in range(5)], status="running")
    (shard,) = run.shards.glob("*.arrows")
    shard.write_bytes(shard.read_bytes()[:-8])
    done = export(run, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["index"] for line in done.stdout.splitlines()] == [0, 1, 2, 3, 4]
    assert "5 rows; the run is running" in done.stderr


def test_rows_are_given_once_when_compaction_was_cut(tmp_path: Path) -> None:
    """Shard and Parquet both there hold the same rows: no row twice."""
    run = make_run(tmp_path, [make_record(index=i) for i in range(4)])
    (shard,) = run.shards.glob("*.arrows")
    copy = shard.read_bytes()
    compact(run)
    shard.write_bytes(copy)
    assert sum(batch.num_rows for batch in iter_rows(run)) == 4


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """Exit 2 and what a run folder looks like."""
    done = export(RunFolder(tmp_path))
    assert done.returncode == 2
    assert "no run here" in done.stderr


def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    """`| head -1`: exit 0, one line, no word about a broken pipe."""
    run = make_run(tmp_path, [make_record(index=i) for i in range(3000)])
    command = f"{sys.executable} -m harness.cli.main records {run.path}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cell,segment,index")


def test_a_long_run_is_never_held_whole(tmp_path: Path) -> None:
    """Batches pass one at a time: at no moment a third of the rows is in memory."""
    run = make_run(tmp_path, [])
    compact(run)
    table = pa.Table.from_batches([to_batch([make_record(index=i) for i in range(200)])] * 200)
    pq.write_table(table, run.path / PARQUET, row_group_size=4000)
    size, before, most = table.nbytes, 0, 0
    del table
    before = pa.total_allocated_bytes()
    n_rows = 0
    for batch in iter_rows(run):
        n_rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert n_rows == 40_000
    assert most < size / 3


def test_writers_take_any_text_and_number() -> None:
    """Quotes, line breaks, NaN and empty batches: readable CSV, valid JSON lines."""
    values: dict[str, list[Any]] = {"a": ['x"y\nz', None], "b": [float("nan"), 1.5]}
    batch = pa.RecordBatch.from_pydict(values)
    out = io.StringIO()
    assert write_csv(batch.schema, [batch.slice(0, 0), batch], out) == 2
    assert read_csv(out.getvalue()) == [{"a": 'x"y\nz', "b": ""}, {"a": "", "b": "1.5"}]
    out = io.StringIO()
    assert write_json_lines([batch], out) == 2
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"a": 'x"y\nz', "b": None},
        {"a": None, "b": 1.5},
    ]
