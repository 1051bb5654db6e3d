"""Telemetry on disk: round trip, cut streams, compaction that may be repeated."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.base.errors import RecordError
from harness.records.run import RunFolder
from harness.records.telemetry import (
    PARQUET,
    Reading,
    TelemetryWriter,
    compact_telemetry,
    read_telemetry,
    read_telemetry_file,
    to_readings,
    write_telemetry,
)

ROWS = [
    Reading(1_000, "target", "up", (), 1.0, "gauge"),
    Reading(1_000, "target", "x_total", (("b", 'q"\n'), ("a", "ü")), 3.5, "counter"),
    Reading(2_000, "target", "x_total", (("b", 'q"\n'), ("a", "ü")), None, "counter"),
]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "run")


def written(run: RunFolder, rows: list[Reading], session: int = 1) -> Path:
    writer = TelemetryWriter(run, session)
    for row in rows:
        writer.write([row])
    writer.close()
    return writer.path


def test_rows_come_back_as_written_before_and_after_compaction(run: RunFolder) -> None:
    """Labels keep their characters, an absent value stays absent, and no row is doubled."""
    written(run, ROWS)
    before = read_telemetry(run)
    compact_telemetry(run)
    compact_telemetry(run)
    after = read_telemetry(run)
    assert before is not None
    assert after is not None
    pd.testing.assert_frame_equal(before, after)
    assert list(after["labels"]) == [(), (("a", "ü"), ("b", 'q"\n')), (("a", "ü"), ("b", 'q"\n'))]
    assert list(after["value"].isna()) == [False, False, True]
    assert not list(run.path.glob("*.arrows"))


@pytest.mark.parametrize("n_cut", [1, 40, 200])
def test_a_cut_stream_gives_its_whole_batches(run: RunFolder, n_cut: int) -> None:
    """What a kill leaves torn is left out; what was written before it is there."""
    path = written(run, ROWS)
    path.write_bytes(path.read_bytes()[:-n_cut])
    found = read_telemetry(run)
    assert found is not None
    assert list(found["time_unix_ns"]) in ([1_000, 1_000], [1_000, 1_000, 2_000])
    compact_telemetry(run)
    again = read_telemetry(run)
    assert again is not None
    pd.testing.assert_frame_equal(found, again)


def test_a_kill_between_compaction_and_its_tidying_doubles_nothing(run: RunFolder) -> None:
    """The stream that is still there adds only what is later than the compacted rows."""
    path = written(run, ROWS)
    kept = path.read_bytes()
    compact_telemetry(run)
    path.write_bytes(kept)
    found = read_telemetry(run)
    assert found is not None
    assert len(found) == len(ROWS)


def test_a_later_session_adds_its_rows(run: RunFolder) -> None:
    """A resumed run holds both sessions' telemetry, compacted or not."""
    written(run, ROWS)
    compact_telemetry(run)
    written(run, [Reading(9_000, "target", "up", (), 1.0, "gauge")], session=2)
    for _ in range(2):
        found = read_telemetry(run)
        assert found is not None
        assert list(found["time_unix_ns"]) == [1_000, 1_000, 2_000, 9_000]
        compact_telemetry(run)


def test_a_run_without_telemetry_has_none(run: RunFolder) -> None:
    """Nothing scraped is None, and compaction makes no file of it."""
    assert read_telemetry(run) is None
    compact_telemetry(run)
    assert not (run.path / PARQUET).exists()
    written(run, [])
    assert read_telemetry(run) is None


def test_a_file_of_another_kind_is_told(run: RunFolder, tmp_path: Path) -> None:
    """Another Parquet and a broken one are errors that name the file."""
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(RecordError, match=r"other\.parquet: got telemetry schema none"):
        read_telemetry_file(path)
    (run.path / PARQUET).write_bytes(b"PAR1")
    with pytest.raises(RecordError, match="unreadable Parquet"):
        read_telemetry(run)
    write_telemetry(path, ROWS)
    pd.testing.assert_frame_equal(read_telemetry_file(path), to_readings(ROWS))
