import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.base.errors import RecordError
from harness.records.about import read_about
from harness.records.columns import ADDED, COLUMNS, from_table, to_batch
from harness.records.request import Outcome, RequestRecord
from harness.records.run import RunFolder, new_run_id
from harness.records.shard import ShardWriter, read_acknowledgements, read_shard
from harness.records.store import PARQUET, compact, read_rows
from tests.make_records import make_record

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
counts = st.none() | st.integers(0, 2**40)
stamps = st.lists(st.integers(0, 2**60), max_size=5).map(tuple)
records = st.builds(
    RequestRecord,
    outcome=st.sampled_from(Outcome),
    intended_ns=st.integers(0, 2**62),
    error=st.none() | st.text(max_size=20),
    token_ns=stamps,
    n_output_tokens=counts,
    rx_lag_ns=counts,
    phases=st.dictionaries(st.text(max_size=5), st.floats(0, 1e3), max_size=3),
    anomalies=st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3),
    finish_reason=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


def write(folder: Path, batches: list[list[RequestRecord]], name: str = "w0") -> Path:
    """A shard with one Arrow batch per inner list, closed properly."""
    path = folder / f"{name}.arrows"
    with path.open("wb") as file, pa.ipc.new_stream(file, to_batch([]).schema) as stream:
        for batch in batches:
            stream.write_batch(to_batch(batch))
    return path


def make_run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, new_run_id("small", STARTED))


@given(st.lists(records, max_size=6))
def test_rows_survive_the_columns_bit_for_bit(rows: list[RequestRecord]) -> None:
    """None stays None, maps and lists keep their order, text keeps every character."""
    assert from_table(pa.Table.from_batches([to_batch(rows)])) == rows


def test_every_field_of_a_record_has_a_column() -> None:
    """A field added to the record and forgotten in the store fails here."""
    assert set(COLUMNS) == set(RequestRecord.__dataclass_fields__)


def test_a_writer_keeps_order_and_closes_clean(tmp_path: Path) -> None:
    """What was appended is what is read, in order, and the shard is whole."""
    run = make_run(tmp_path)
    writer = ShardWriter(run.shards, "w0")
    rows = [make_record(index=index) for index in range(100)]
    for row in rows:
        writer.append(row)
    writer.end_segment()
    writer.close()
    stored = read_rows(run)
    assert stored.torn == ()
    assert from_table(stored.table) == rows


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_a_torn_tail_costs_the_last_batch_only(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Cut a shard anywhere: every batch before the cut is whole, nothing is made up."""
    folder = tmp_path_factory.mktemp("torn")
    batches = [[make_record(index=10 * b + i) for i in range(3)] for b in range(4)]
    path = write(folder, batches)
    data = path.read_bytes()
    ends = [len(write(folder, batches[: n + 1], f"p{n}").read_bytes()) - 8 for n in range(4)]
    cut = cut % (len(data) + 1)
    path.write_bytes(data[:cut])
    shard = read_shard(path)
    n_whole = sum(end <= cut for end in ends)
    expected = [row for batch in batches[:n_whole] for row in batch]
    assert from_table(shard.table) == expected
    assert shard.is_torn == (cut < len(data))


def test_compaction_is_idempotent_and_drops_the_shards(tmp_path: Path) -> None:
    """A crash between writing Parquet and removing shards doubles no row."""
    run = make_run(tmp_path)
    shard = write(run.shards, [[make_record(index=1)], [make_record(index=2)]])
    kept = shard.read_bytes()
    compact(run)
    shard.write_bytes(kept)
    compact(run)
    assert (run.path / PARQUET).is_file()
    assert list(run.shards.iterdir()) == []
    assert [row.index for row in from_table(read_rows(run).table)] == [1, 2]


def test_a_run_without_rows_reads_as_empty(tmp_path: Path) -> None:
    """No shard is no error here: what an empty run means is the caller's to say."""
    assert read_rows(make_run(tmp_path)).table.num_rows == 0


def test_foreign_files_are_refused_by_name(tmp_path: Path) -> None:
    """Another schema or damaged Parquet names the file and what this version reads."""
    run = make_run(tmp_path)
    foreign = pa.table({"x": [1]})
    with (
        pa.OSFile(str(run.shards / "w0.arrows"), "wb") as file,
        pa.ipc.new_stream(file, foreign.schema) as stream,
    ):
        stream.write_table(foreign)
    with pytest.raises(RecordError, match="got record schema none, this version reads 1 to 2"):
        read_rows(run)
    (run.path / PARQUET).write_bytes(b"no parquet")
    with pytest.raises(RecordError, match="unreadable Parquet"):
        read_rows(run)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from harness.base.errors import RecordError
from harness.records.shard import ShardWriter
from tests.make_records import make_record

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = ShardWriter(Path(sys.argv[1]), "w0")
try:
    for index in range(10_000):
        writer.append(make_record(index=index))
    writer.close()
except RecordError as error:
    sys.exit(f"said: {error}")
"""


def test_a_full_disk_is_said_and_the_store_stays_readable(tmp_path: Path) -> None:
    """A write that fails surfaces as an error naming the shard; what was flushed reads back."""
    run = make_run(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(run.shards)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "said: " in done.stderr, done.stderr
    assert "w0.arrows: writing failed" in done.stderr
    assert "free some space" in done.stderr
    stored = read_rows(run)
    assert stored.torn == ("w0.arrows",)
    assert stored.lost == ()
    told = [each.n_rows for each in read_acknowledgements(run.shards / "w0.arrows")]
    assert max(told, default=0) <= stored.table.num_rows


def test_a_row_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Whatever stops the writer's thread, the run hears of it: no row vanishes in silence."""
    writer = ShardWriter(make_run(tmp_path).shards, "w0")
    writer.append(replace(make_record(), n_evictions=2**70))
    with pytest.raises(RecordError, match=r"w0.arrows: writing failed: OverflowError"):
        writer.close()


def test_acknowledgements_follow_the_rows(tmp_path: Path) -> None:
    """Each line tells rows and bytes so far, and what it tells is on disk when it is there."""
    run = make_run(tmp_path)
    writer = ShardWriter(run.shards, "w0")
    for part in (range(3), range(3, 5)):
        for index in part:
            writer.append(make_record(index=index))
        writer.end_segment()
        log = read_acknowledgements(writer.path)
        while not log or log[-1].n_rows != part.stop:
            time.sleep(0.01)
            log = read_acknowledgements(writer.path)
        assert read_shard(writer.path).table.num_rows == part.stop
        assert writer.path.stat().st_size == log[-1].n_bytes
    writer.close()
    log = read_acknowledgements(writer.path)
    assert [line.n_rows for line in log] == [3, 5]
    assert log[0].at_ns < log[1].at_ns


def test_rows_of_an_older_schema_are_read(tmp_path: Path) -> None:
    """Schema 1 knew neither session nor worker: such a run reads as one session of one process."""
    run = make_run(tmp_path)
    added = [name for columns in ADDED.values() for name in columns]
    table = pa.Table.from_batches([to_batch([make_record(index=1)])]).drop(added)
    table = table.replace_schema_metadata({"tailbreak.schema": "1"})
    with (
        pa.OSFile(str(run.shards / "w0.arrows"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    assert from_table(read_rows(run).table) == [make_record(index=1)]


def test_two_writers_of_one_name_collide_loudly(tmp_path: Path) -> None:
    """A shard is never opened twice: rows of another process are never overwritten."""
    run = make_run(tmp_path)
    writer = ShardWriter(run.shards, "w0")
    with pytest.raises(RecordError, match="cannot create the shard"):
        ShardWriter(run.shards, "w0")
    writer.close()


def test_run_folders_never_share_a_name(tmp_path: Path) -> None:
    """Two runs within a second get two folders."""
    one, two = make_run(tmp_path), make_run(tmp_path)
    assert one.path != two.path
    assert one.id == "20260102-030405-small"


def test_opening_what_is_no_run_says_so(tmp_path: Path) -> None:
    """The message names the folder and shows what a run looks like."""
    with pytest.raises(RecordError, match=r"no run here \(run.json is missing\)"):
        RunFolder.open(tmp_path)
    run = make_run(tmp_path)
    with pytest.raises(RecordError, match="missing"):
        run.read_json("plan.json")
    run.write_text("plan.json", "{")
    with pytest.raises(RecordError, match="unreadable JSON"):
        run.read_json("plan.json")


def test_a_vanished_run_folder_is_said(tmp_path: Path) -> None:
    """Writing into a folder that is gone is an error with its path, no bare OSError."""
    run = make_run(tmp_path)
    shutil.rmtree(run.path)
    with pytest.raises(RecordError, match=r"client.json: cannot be written: No such file"):
        run.write_json("client.json", {})


@pytest.mark.parametrize("text", ["[1]", "{}", '{"id": 3}', "[" * 100_000, '{"id": NaN}'])
def test_json_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    """A list, a missing key, a number for text, absurd nesting: an error with the path."""
    run = make_run(tmp_path)
    run.write_text("run.json", text)
    with pytest.raises(RecordError, match=r"run\.json"):
        read_about(run)


def test_a_file_may_be_written_from_several_threads_at_once(tmp_path: Path) -> None:
    """Four threads write one file 200 times each: no write fails, the file is always whole."""
    run = make_run(tmp_path)

    def write_often(writer: int) -> None:
        for turn in range(200):
            run.write_json("progress.json", {"writer": writer, "turn": turn, "pad": "x" * 2000})

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(write_often, writer) for writer in range(4)]:
            future.result()
    assert run.read_json("progress.json")["turn"] == 199
    assert not list(run.path.glob(".*.part"))
