import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.server.journal import Journal, JournalRow
from harness.server.journal_queue import MAX_BATCH, JournalQueue

ROOT = Path(__file__).parents[3]


def row(name: str) -> JournalRow:
    return JournalRow(
        id=name,
        finished_unix_ns=1,
        path="accelerated",
        features=("async_store",),
        n_prompt_tokens=3,
        n_output_tokens=2,
        n_reasoning_tokens=0,
        outcome="length",
        wall_s=0.5,
        ttft_s=None,
        phases={"ffn": 0.25},
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    )


def ids(file: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(file)) as journal:
        return [name for (name,) in journal.execute("SELECT id FROM requests ORDER BY id")]


class GatedJournal(Journal):
    """A journal whose commits wait for the test."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.gate = threading.Event()
        self.has_begun = threading.Event()
        self.sizes: list[int] = []

    def write(self, rows: Sequence[JournalRow]) -> None:
        """Commit when the gate is open."""
        self.has_begun.set()
        assert self.gate.wait(20)
        self.sizes.append(len(rows))
        super().write(rows)


def test_a_row_is_committed_when_written(tmp_path: Path) -> None:
    """Without the queue another reader sees the row at once, with its counts and phases."""
    journal = Journal(tmp_path / "journal")
    journal.write([row("a")])
    with contextlib.closing(sqlite3.connect(tmp_path / "journal")) as reader:
        rows = reader.execute(
            "SELECT id, ttft_s, features, phases, trace_id FROM requests"
        ).fetchall()
    assert rows == [("a", None, "async_store", '{"ffn": 0.25}', row("a").trace_id)]
    journal.close()
    journal.write([row("b"), row("c")])
    assert journal.n_failed == 2


def test_a_journal_from_before_trace_ids_takes_rows(tmp_path: Path) -> None:
    """The column is added once; rows that are there have none."""
    file = tmp_path / "journal"
    for name in ("old", "new", "newer"):
        journal = Journal(file)
        journal.write([row(name)])
        journal.close()
        assert journal.n_failed == 0
        if name == "old":
            with contextlib.closing(sqlite3.connect(file)) as old:
                old.execute("ALTER TABLE requests DROP COLUMN trace_id")
    with contextlib.closing(sqlite3.connect(file)) as reader:
        rows = reader.execute("SELECT id, trace_id FROM requests ORDER BY rowid").fetchall()
    trace_id = row("").trace_id
    assert rows == [("old", None), ("new", trace_id), ("newer", trace_id)]


def test_rows_wait_for_a_connection_and_are_stored(tmp_path: Path) -> None:
    """While all connections are taken nothing is written and rows are counted as waiting."""
    file = tmp_path / "journal"

    async def scene() -> None:
        journal = Journal(file)
        queue = JournalQueue(journal)
        for _ in range(journal.connections.limit):
            await journal.connections.take()
        storing = [asyncio.ensure_future(queue.store(row(name))) for name in ("a", "b")]
        while journal.connections.n_waiting == 0:  # noqa: ASYNC110  a thread's doing
            await asyncio.sleep(0.001)
        assert ids(file) == []
        assert queue.n_waiting == 2
        journal.connections.give_back()
        await asyncio.gather(*storing)
        assert queue.n_waiting == 0
        queue.close()
        assert journal.connections.in_use == journal.connections.limit - 1
        journal.close()

    asyncio.run(scene())
    assert ids(file) == ["a", "b"]


def test_a_row_is_acknowledged_only_when_it_is_committed(tmp_path: Path) -> None:
    """While the commit runs `store` waits; when it returns, another reader sees the row."""
    file = tmp_path / "journal"

    async def scene() -> None:
        journal = GatedJournal(file)
        queue = JournalQueue(journal)
        storing = asyncio.ensure_future(queue.store(row("a")))
        await asyncio.to_thread(journal.has_begun.wait)
        await asyncio.sleep(0)
        assert not storing.done()
        assert ids(file) == []
        journal.gate.set()
        await storing
        assert ids(file) == ["a"]
        queue.close()
        journal.close()

    asyncio.run(scene())


def test_rows_that_come_during_a_commit_share_the_next(tmp_path: Path) -> None:
    """The first row goes alone and at once; what gathers behind it goes in batches of 500."""
    names = [f"{index:04}" for index in range(1201)]

    async def scene() -> None:
        journal = GatedJournal(tmp_path / "journal")
        queue = JournalQueue(journal)
        storing = [asyncio.ensure_future(queue.store(row(names[0])))]
        await asyncio.to_thread(journal.has_begun.wait)
        storing += [asyncio.ensure_future(queue.store(row(name))) for name in names[1:]]
        await asyncio.sleep(0)
        journal.gate.set()
        await asyncio.gather(*storing)
        queue.close()
        journal.close()
        assert journal.sizes == [1, MAX_BATCH, MAX_BATCH, 200]

    asyncio.run(scene())
    assert ids(tmp_path / "journal") == names


def test_a_full_queue_holds_up_is_counted_and_loses_nothing(tmp_path: Path) -> None:
    """With two places, ten rows wait their turn; all are stored."""

    async def scene() -> None:
        journal = GatedJournal(tmp_path / "journal")
        queue = JournalQueue(journal, max_queued=2)
        storing = [asyncio.ensure_future(queue.store(row(f"{index}"))) for index in range(10)]
        await asyncio.to_thread(journal.has_begun.wait)
        assert queue.n_waits == 8
        journal.gate.set()
        await asyncio.gather(*storing)
        queue.close()
        journal.close()
        assert max(journal.sizes) <= 2

    asyncio.run(scene())
    assert len(ids(tmp_path / "journal")) == 10


def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    """Rows whose requests were cancelled are still stored when the server stops."""

    async def scene() -> None:
        journal = GatedJournal(tmp_path / "journal")
        queue = JournalQueue(journal)
        storing = [asyncio.ensure_future(queue.store(row(f"{index}"))) for index in range(5)]
        await asyncio.to_thread(journal.has_begun.wait)
        for each in storing:
            each.cancel()
        journal.gate.set()
        queue.close()
        journal.close()

    asyncio.run(scene())
    assert len(ids(tmp_path / "journal")) == 5


def test_failed_rows_are_counted_and_the_requests_go_on(tmp_path: Path) -> None:
    """A file that cannot be written costs rows, each counted, and no request."""

    async def scene() -> int:
        journal = Journal(tmp_path / "journal")
        with contextlib.closing(sqlite3.connect(tmp_path / "journal")) as other:
            other.execute("DROP TABLE requests")
        queue = JournalQueue(journal)
        await asyncio.gather(*(queue.store(row(f"{index}")) for index in range(3)))
        queue.close()
        journal.close()
        return journal.n_failed

    assert asyncio.run(scene()) == 3


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_journal_without_a_name_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    """The temporary journal takes rows, and is gone however its process ends."""
    code = (
        "import os\n"
        "from harness.server.journal import Journal, JournalRow\n"
        "journal = Journal()\n"
        "row = JournalRow(id='a', finished_unix_ns=1, path='baseline', features=(),"
        " n_prompt_tokens=1, n_output_tokens=1, n_reasoning_tokens=0, outcome='stop',"
        " wall_s=1.0, ttft_s=None, phases={})\n"
        "for index in range(3000):\n"
        "    journal.write([row])\n"
        "assert journal.n_failed == 0\n"
        "rows = journal._connection.execute('SELECT count(*) FROM requests')\n"
        "print(rows.fetchone(), flush=True)\n"
        f"{ending}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("(1,)\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    """The message names the option, the file and what to do."""
    with pytest.raises(SetupError, match=r"--journal .* cannot be opened .* Give a file"):
        Journal(tmp_path / "missing" / "journal")
