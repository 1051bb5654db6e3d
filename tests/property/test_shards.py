"""Whatever a crash leaves of the shards: every whole batch is read, once, and nothing else."""

import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records.columns import SCHEMA, to_batch
from harness.records.run import RunFolder
from harness.records.shard import LOG, SHARD, read_acknowledgements
from harness.records.store import compact, read_rows
from tests.make_records import make_record

Key = tuple[int, str, int]
shards = st.lists(
    st.tuples(
        st.integers(1, 2),  # session
        st.lists(st.integers(1, 3), max_size=4),  # rows per batch
        st.floats(0, 1),  # where it is cut
        st.booleans(),  # whether its rows are in the Parquet file already
    ),
    max_size=3,
)


def write_shard(folder: Path, number: int, session: int, sizes: list[int]) -> list[list[Key]]:
    """A closed shard and its log; the keys of each batch."""
    path = folder / f"w{number}{SHARD}"
    keys: list[list[Key]] = []
    log = ""
    with path.open("wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        for batch, size in enumerate(sizes):
            names = [(session, f"w{number}", 10 * batch + row) for row in range(size)]
            stream.write_batch(
                to_batch([make_record(session=s, segment=name, index=i) for s, name, i in names])
            )
            file.flush()
            keys.append(names)
            log += f"{sum(map(len, keys))} {file.tell()} {batch}\n"
    path.with_suffix(LOG).write_text(log)
    return keys


def cut_shard(folder: Path, number: int, share: float, batches: list[list[Key]]) -> list[Key]:
    """Cut shard and log as a crash does: a batch is told only if all of it is there."""
    path = folder / f"w{number}{SHARD}"
    data, acknowledgements = path.read_bytes(), read_acknowledgements(path)
    size = round(share * len(data))
    path.write_bytes(data[:size])
    whole = [each for each in acknowledgements if each.n_bytes <= size]
    lines = [f"{each.n_rows} {each.n_bytes} {each.at_ns}\n" for each in whole]
    path.with_suffix(LOG).write_text("".join(lines) + "12 3")  # and a line torn in the middle
    return [key for batch in batches[: len(whole)] for key in batch]


def read(run: RunFolder) -> Counter[Key]:
    stored = read_rows(run)
    assert stored.lost == ()
    columns = stored.table.select(["session", "segment", "index"]).to_pydict()
    return Counter(zip(*columns.values(), strict=True))


@settings(max_examples=80)
@given(shards)
def test_every_acknowledged_batch_is_read_once(
    plan: list[tuple[int, list[int], float, bool]],
) -> None:
    """Any cut of any shard at any byte, some of them compacted before: no row lost or doubled."""
    with TemporaryDirectory() as name:
        run = RunFolder.create(Path(name), "run")
        expected: list[Key] = []
        before = RunFolder.create(Path(name), "before")
        for number, (session, sizes, share, is_compacted) in enumerate(plan):
            batches = write_shard(run.shards, number, session, sizes)
            expected += cut_shard(run.shards, number, share, batches)
            if is_compacted:
                shutil.copy(run.shards / f"w{number}{SHARD}", before.shards)
        if any(is_compacted for *_, is_compacted in plan):
            compact(before)
            shutil.copy(before.path / "requests.parquet", run.path)
        assert read(run) == Counter(expected)
        compact(run)
        assert read(run) == Counter(expected)
        assert not list(run.shards.iterdir())


@settings(max_examples=25)
@given(st.integers(1, 3), st.floats(0, 0.9))
def test_rows_that_vanish_after_they_were_acknowledged_are_counted(n: int, share: float) -> None:
    """A disk that lost what it had taken: how many rows of which shard, never silence."""
    with TemporaryDirectory() as name:
        run = RunFolder.create(Path(name), "run")
        batches = write_shard(run.shards, 0, 1, [2] * n)
        log = (run.shards / f"w0{LOG}").read_text()
        n_left = len(cut_shard(run.shards, 0, share, batches))
        (run.shards / f"w0{LOG}").write_text(log)
        assert read_rows(run).lost == ((f"w0{SHARD}", 2 * n - n_left),)
