"""What a run that Locust was started for ends with: the report, the verdict, the exit code.

Analysis lies above this layer and must not run in a patched process, so it is asked for as a user
asks for it: `tailbreak report RUN`, in a process of its own. `tailbreak run` makes its own report.
"""

import os
import subprocess
import sys
from dataclasses import dataclass

import gevent

from harness.base.errors import ExitCode, RecordError
from harness.load.runner import load_environment
from harness.records.about import read_about
from harness.records.run import RunFolder
from harness.records.store import compact


@dataclass(frozen=True, kw_only=True)
class RunVerdict:
    """What `tailbreak report` said.

    Attributes:
        exit_code: by the table of exit codes.
        text: what it printed: the verdict and where the report is, or why there is none.
    """

    exit_code: int
    text: str


class FinalReport:
    """The report of one run, made once whoever asks first; waiting lets other greenlets run."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._greenlet: gevent.Greenlet[..., RunVerdict] | None = None
        self._is_told = False

    def verdict(self) -> RunVerdict:
        """The verdict, as soon as it is there."""
        if self._greenlet is None:
            self._greenlet = gevent.spawn(ask_for_verdict, self._run)
        found: RunVerdict = self._greenlet.get()
        return found

    def tell(self) -> None:
        """Print the verdict, the first time."""
        text = self.verdict().text
        if not self._is_told:
            self._is_told = True
            sys.stdout.write(text)
            sys.stdout.flush()


def ask_for_verdict(run: RunFolder) -> RunVerdict:
    """Compact the run's rows and write its report in another process; waits for it.

    Where that is not possible there is no verdict, and the exit code is 2.
    """
    command = [sys.executable, "-m", "harness.cli.main", "report", str(run.path)]
    try:
        if read_about(run)["status"] == "complete":
            compact(run)
        process = subprocess.Popen(  # noqa: S603  our own interpreter and paths
            command,
            env=load_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, RecordError) as error:
        return RunVerdict(exit_code=int(ExitCode.INPUT_OR_SETUP), text=_none(run, str(error)))
    _lower_priority(process.pid)
    text, _ = process.communicate()
    if process.returncode not in set(ExitCode):
        text += _none(run, f"it ended with {process.returncode}")
        return RunVerdict(exit_code=int(ExitCode.INPUT_OR_SETUP), text=text)
    return RunVerdict(exit_code=process.returncode, text=text)


def _none(run: RunFolder, reason: str) -> str:
    return f"no report was made ({reason}); make it with: tailbreak report {run.path}\n"


def _lower_priority(pid: int) -> None:
    """The load process may have asked for priority; what comes after the load needs none."""
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        os.setpriority(os.PRIO_PROCESS, pid, 0)
