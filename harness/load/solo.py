"""A run in this one process: the engine, and the run's state beside it."""

import time

import gevent

from harness.base.errors import SetupError
from harness.load.dispatcher import n_users_needed
from harness.load.engine import DRAIN_GRACE_S, LoadEngine
from harness.load.observers import LiveFigures
from harness.load.record_keeper import Report
from harness.load.run_state import RunState
from harness.load.session import Session
from harness.load.virtual_user import VirtualUser

MUSTER_LIMIT_S = 30.0


class SoloRun:
    """Runs one session alone; the engine's segments follow one another at once.

    Attributes:
        state: how the run stands.
        n_users: users this run needs.
        is_begun: it was started; it is never started again.
        is_stopped: Locust is ending it.
        is_closed: it is written and over.
    """

    def __init__(self, session: Session, url: str, report: Report) -> None:
        """Prepare everything that is not measured.

        Raises:
            SetupError: the target is not there, or the key is missing.
        """
        figures = LiveFigures()
        self.state = RunState(session, figures, self._stop, self._n_at_work)
        self.engine = LoadEngine(session, url, report, self.fail, [figures])
        self.n_users = n_users_needed(session.plan, session.scenario.load.users)
        self.is_begun = False
        self.is_stopped = False
        self.is_closed = False
        self._n_entered = 0

    @property
    def path(self) -> str:
        """API path, for Locust's tables."""
        return self.engine.path

    def enter(self) -> VirtualUser | None:
        """Work for one more Locust user; None when there are enough."""
        if self._n_entered == self.n_users or self.is_closed:
            return None
        self._n_entered += 1
        return self.engine.new_user()

    def run(self) -> None:
        """Run the plan once all users are there; returns when it is done or stopped."""
        self.is_begun = True
        self.state.start()
        self._muster()
        self.engine.run(self)

    def begin(self, position: int) -> int:
        """The engine's next segment begins now."""
        self.state.start_segment(self.state.session.plan.segments[position])
        return time.monotonic_ns()

    def end(self, position: int, *, is_whole: bool) -> None:  # noqa: ARG002  as Turns wants it
        """The engine is through with its segment."""
        self.state.end_segment(is_whole=is_whole)

    def fail(self, error: Exception) -> None:
        """Something of ours broke: stop, and let the exit code say so."""
        self.state.fail(error)

    def drain(self, grace_s: float = DRAIN_GRACE_S) -> None:
        """Stop, wait for what is in flight, then cancel it; each leaves its record."""
        self.engine.drain(grace_s)

    def hurry(self) -> None:
        """A drain under way cancels now."""
        self.engine.hurry()

    def close(self) -> None:
        """Write what is left to write; safe to call twice."""
        if self.is_closed:
            return
        self.is_closed = True
        self.engine.close()
        self.state.close({**self.engine.health(), "n_users_needed": self.n_users})

    def _n_at_work(self) -> int:
        return self.engine.n_at_work

    def _stop(self) -> None:
        self.engine.stop()

    def _muster(self) -> None:
        until = time.monotonic() + MUSTER_LIMIT_S
        while self._n_entered < self.n_users and not self.engine.is_stopping:
            if time.monotonic() > until:
                self.fail(too_few_users(self._n_entered, self.n_users))
            gevent.sleep(0.01)


def too_few_users(n: int, wanted: int) -> SetupError:
    """Locust did not lend the users in time."""
    return SetupError(
        f"{n} of the {wanted} users the scenario needs came within {MUSTER_LIMIT_S:.0f} s; "
        "look for an on_start that takes long"
    )
