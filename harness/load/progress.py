"""`progress.json`: where a run stands, for whoever polls the run folder."""

from collections.abc import Callable
from typing import Any, Final

from gevent import get_hub

from harness.load.observers import Figures
from harness.load.session import Session
from harness.plan.plan import Segment

PERIOD_S: Final = 0.5


class Progress:
    """Writes the file, whole or not at all.

    Attributes:
        n_segments_done: segments of this session whose every request is recorded.
    """

    def __init__(self, session: Session, figures: Figures, n_users: Callable[[], int]) -> None:
        """`n_users` tells how many users are at work."""
        self._run = session.run
        self._session = session
        self._figures = figures
        self._n_users = n_users
        self._segment: Segment | None = None
        self._is_writing = False
        self.n_segments_done = 0

    def start_segment(self, segment: Segment) -> None:
        """A segment begins."""
        if self._segment is None or self._segment.cell != segment.cell:
            self._figures.start_cell()
        self._segment = segment

    def end_segment(self, *, is_whole: bool) -> None:
        """It is over, with every request of it or not."""
        self.n_segments_done += int(is_whole)

    def write(self, state: str) -> None:
        """Write the file; `state` is running, done or aborted. Blocks the loop on the disk."""
        self._run.write_json("progress.json", self.describe(state))

    def write_in_background(self) -> None:
        """Write the file from a native thread; only the calling greenlet waits for the disk.

        One at a time: while a write is under way another is left out, so none overtakes a later.
        """
        if self._is_writing:
            return
        self._is_writing = True
        try:
            description = self.describe("running")
            get_hub().threadpool.apply(self._run.write_json, ("progress.json", description))
        finally:
            self._is_writing = False

    def describe(self, state: str) -> dict[str, Any]:
        """What the file says."""
        session = self._session
        cell = session.plan.cell(self._segment.cell) if self._segment else None
        return {
            "session": session.number,
            "segments_done": session.n_segments_done + self.n_segments_done,
            "segments": len(session.whole.segments),
            "requests_done": session.n_done + self._figures.n_records,
            "requests": session.n_done + session.plan.n_requests,
            "cell": cell.id if cell else None,
            "factors": dict(cell.factors) if cell else {},
            "users": self._n_users() if state == "running" else 0,
            "failed": self._figures.n_failed,
            "live": {
                "ttft_p50_s": self._figures.ttft_s(0.5),
                "ttft_p99_s": self._figures.ttft_s(0.99),
            },
            "state": state,
        }
