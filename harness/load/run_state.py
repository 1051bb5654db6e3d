"""How a run stands and how it ended: its progress file, its last words and its exit code.

One per run: in the one process there is, or in the master of several.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gevent

from harness.base.errors import ExitCode, TailbreakError
from harness.load import session as sessions
from harness.load.observers import Figures
from harness.load.progress import PERIOD_S, Progress
from harness.load.session import Session
from harness.plan.plan import Segment

logger = logging.getLogger("tailbreak")


class RunState:
    """One run's account of itself.

    Attributes:
        session: the run it is about.
        failure: the first thing of ours that broke.
        lost: load processes that are gone, each with what became of it.
    """

    def __init__(
        self,
        session: Session,
        figures: Figures,
        stop: Callable[[], None],
        n_users: Callable[[], int],
    ) -> None:
        """`stop` ends the run's load when something of ours breaks; `n_users` are at work."""
        self.session = session
        self.failure: Exception | None = None
        self._figures = figures
        self._stop = stop
        self._progress = Progress(session, figures, n_users)
        self.lost: list[str] = []
        self._writer: gevent.Greenlet[..., None] | None = None

    def start(self) -> None:
        """Keep `progress.json` up to date from now on."""
        self._writer = gevent.spawn(self._write_progress)

    def start_segment(self, segment: Segment) -> None:
        """A segment begins."""
        self._progress.start_segment(segment)

    def end_segment(self, *, is_whole: bool) -> None:
        """The segment is over, with every request of it or not."""
        self._progress.end_segment(is_whole=is_whole)

    def fail(self, error: Exception) -> None:
        """Something of ours broke: stop, and let the exit code say so."""
        if self.failure is None:
            self.failure = error
            logger.error("%s", error)
            self._stop()

    def lose(self, worker: str) -> None:
        """A load process is gone: the run says which and stays partial."""
        self.lost.append(worker)
        logger.error("%s; the run ends here and is partial", worker)

    def close(self, client: Mapping[str, Any]) -> None:
        """Write the end: the client's health, the progress, the status."""
        if self._writer is not None:
            self._writer.kill(block=False)  # nothing here may yield: two may call it
        for write in (partial(self._write_client, client), self._write_end):
            try:
                write()
            except TailbreakError as error:
                self.fail(error)
        if self.session.lock is not None:  # a page that goes on being served holds nothing back
            self.session.lock.release()

    @property
    def is_complete(self) -> bool:
        """Whether every request of the plan is recorded."""
        is_whole = self._progress.n_segments_done == len(self.session.plan.segments)
        return is_whole and self.failure is None and not self.lost

    @property
    def exit_code(self) -> ExitCode:
        """What this run deserves: 2, 5, 1, 0 in this order."""
        if self.failure is not None:
            code = getattr(self.failure, "exit_code", ExitCode.INPUT_OR_SETUP)
            return ExitCode(code)
        figures = self._figures
        if figures.n_ok == 0 or not self.is_complete:
            return ExitCode.UNDECIDED
        n = figures.n_ok + figures.n_failed
        if figures.n_failed > self.session.scenario.limits.failed_share * n:
            return ExitCode.REQUESTS_FAILED
        return ExitCode.PASS

    @property
    def summary(self) -> str:
        """The run in one line, and a line for each process that was lost."""
        figures, session = self._figures, self.session
        state = "complete" if self.is_complete else "partial"
        line = (
            f"{state}: {session.n_segments_done + self._progress.n_segments_done} of "
            f"{len(session.whole.segments)} segments, {session.n_done + figures.n_records} of "
            f"{session.n_done + session.plan.n_requests} requests recorded, "
            f"{figures.n_failed} failed; {session.run.path}"
        )
        return "\n".join([line, *self.lost])

    def _write_progress(self) -> None:
        while self.failure is None:
            try:
                self._progress.write_in_background()
            except TailbreakError as error:
                self.fail(error)
            gevent.sleep(PERIOD_S)

    def _write_client(self, client: Mapping[str, Any]) -> None:
        run = self.session.run
        name = run.file_of_session("client.json", self.session.number)
        run.write_json(name, {**client, "lost_workers": self.lost})

    def _write_end(self) -> None:
        self._progress.write("done" if self.is_complete else "aborted")
        sessions.close(self.session.run, is_complete=self.is_complete)
