"""Following a shard: each acknowledged row once, whatever is half written, deleted or damaged."""

import shutil
import time
from pathlib import Path

from harness.records.columns import from_table
from harness.records.shard import LOG, SHARD, ShardWriter
from harness.records.shard_tail import ShardTail
from tests.make_records import make_record


def indices(tail: ShardTail) -> list[int]:
    table = tail.read_new()
    return [] if table is None else [record.index for record in from_table(table)]


def flush(writer: ShardWriter, *numbers: int) -> None:
    """Append rows and wait until they are acknowledged."""
    log = writer.path.with_suffix(LOG)
    n_lines = log.read_bytes().count(b"\n")
    for number in numbers:
        writer.append(make_record(index=number))
    writer.end_segment()
    while log.read_bytes().count(b"\n") == n_lines:
        time.sleep(0.005)


def test_each_row_comes_once_and_as_it_was_written(tmp_path: Path) -> None:
    """Rows come after each flush, none twice, the last ones although the folder was deleted."""
    writer = ShardWriter(tmp_path, "load-0")
    tail = ShardTail(writer.path)
    assert indices(tail) == []
    flush(writer, 1, 2)
    assert indices(tail) == [1, 2]
    assert indices(tail) == []
    flush(writer, 3)
    flush(writer, 4, 5)
    assert indices(tail) == [3, 4, 5]
    flush(writer, 6)
    shutil.rmtree(tmp_path)
    assert indices(tail) == [6]
    writer.close()
    assert indices(tail) == []
    assert not tail.is_damaged
    tail.close()


def written(folder: Path) -> tuple[Path, bytes, list[bytes]]:
    """A closed shard of three batches, its bytes, and its log's lines."""
    writer = ShardWriter(folder, "load-0")
    for number in (1, 2, 3):
        flush(writer, number)
    writer.close()
    path = folder / f"load-0{SHARD}"
    return path, path.read_bytes(), path.with_suffix(LOG).read_bytes().splitlines(keepends=True)


def test_a_cut_anywhere_gives_whole_acknowledged_batches(tmp_path: Path) -> None:
    """However much of shard and log is there, what comes is a prefix; the rest follows later."""
    path, data, lines = written(tmp_path)
    log = path.with_suffix(LOG)
    ends = [int(line.split()[1]) for line in lines]
    for cut in range(0, len(data), 997):
        n_known = sum(end <= cut for end in ends)
        path.write_bytes(data[:cut])
        log.write_bytes(b"".join(lines[:n_known]) + b"7 12")  # a line half written
        tail = ShardTail(path)
        assert indices(tail) == [1, 2, 3][:n_known]
        path.write_bytes(data)
        log.write_bytes(b"".join(lines))
        tail._line = b""
        tail._log.seek(0)
        assert indices(tail) == [1, 2, 3][n_known:]
        assert not tail.is_damaged
        tail.close()


def test_damage_ends_the_reading_and_is_told(tmp_path: Path) -> None:
    """Bytes that were acknowledged and are not there, or are something else: no row, no error."""
    path, data, _ = written(tmp_path)
    for damaged in (data[:-900], bytes(len(data)), data[:600] + b"x" * (len(data) - 600)):
        path.write_bytes(damaged)
        tail = ShardTail(path)
        assert indices(tail) == []
        assert tail.is_damaged
        tail.close()
