"""Who writes into a run now."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.records.lock import FILE, RunLock
from harness.records.run import RunFolder, new_run_id

HOLD = """
import sys
from pathlib import Path
from harness.records.lock import RunLock
from harness.records.run import RunFolder
lock = RunLock(RunFolder(Path(sys.argv[1])))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    started = datetime(2026, 1, 2, tzinfo=UTC)
    return RunFolder.create(tmp_path, new_run_id("small", started))


def test_a_living_writer_is_named_and_a_dead_ones_lock_is_free(run: RunFolder) -> None:
    """While it lives: refused with its process number. After `kill -9`: taken at once."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(SetupError, match=rf"still being written \(process {holder.pid}\)"):
            RunLock(run)
        holder.kill()
        holder.wait()
    with RunLock(run):
        assert (run.path / FILE).read_text() == f"{os.getpid()}\n"


def test_a_child_that_inherits_it_keeps_it(run: RunFolder) -> None:
    """The one who took it leaves, the child lives: still locked; the child ends: free."""
    lock = RunLock(run)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.fd,))
    lock.release()
    lock.release()
    with child, pytest.raises(SetupError, match="still being written"):
        RunLock(run)
    RunLock(run).release()


def test_a_folder_that_is_gone_or_read_only_is_said(tmp_path: Path) -> None:
    """The path and the system's own word, no bare OSError."""
    with pytest.raises(SetupError, match=r"run\.lock: cannot be opened for writing: No such"):
        RunLock(RunFolder(tmp_path / "gone"))
    with pytest.raises(SetupError, match=r"run\.lock: cannot be opened for writing"):
        RunLock(RunFolder(Path("/proc")))
