"""The master of a run over several load processes of this machine.

It alone owns the run folder's account: it deals the plan, begins each segment at one moment for
all, waits for all, and ends the run. It sends no request. A process that dies, hangs or leaves ends
the run, which is then partial and names it.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gevent.event import Event

from harness.base.clock import SystemClock
from harness.base.errors import ExitCode, SetupError, TailbreakError
from harness.load.dispatcher import n_users_needed
from harness.load.engine import CANCEL_GRACE_S, DRAIN_GRACE_S
from harness.load.messages import Begin, Closed, Done, End, Here, Message, Post, Prepare, Ready
from harness.load.messages import Report as FiguresReport
from harness.load.observers import SummedFigures
from harness.load.run_state import RunState
from harness.load.session import Session
from harness.load.solo import MUSTER_LIMIT_S, too_few_users
from harness.plan.plan import Segment
from harness.records.client_account import worst_account
from harness.records.environment import boot_id

BEGIN_LEAD_NS: Final = 30_000_000
"""A segment begins this much after it is announced: every process must have heard of it."""
ABSENT_LIMIT_S: Final = 5.0
"""A process without a sign of life (Locust waits three heartbeats first) is given up after this."""
GONE_LIMIT_S: Final = 3.0
"""What a process said before it died is waited for this long."""
CLOSE_LIMIT_S: Final = DRAIN_GRACE_S + CANCEL_GRACE_S + 5.0
"""A process that has not closed by then hangs."""
POLL_S: Final = 0.1


class WorkerFailed(TailbreakError):  # noqa: N818  what a worker said, with its exit code
    """A load process could not go on."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = ExitCode(exit_code)


@dataclass(kw_only=True)
class _Hand:
    """What the master knows of one load process."""

    id: str
    here: Here
    number: int = -1
    is_ready: bool = False
    n_done: int = 0
    n_whole: int = 0
    closed: Closed | None = None
    is_lost: bool = False
    silent_since: float | None = None

    @property
    def is_open(self) -> bool:
        return self.closed is None and not self.is_lost

    @property
    def name(self) -> str:
        return f"worker {self.number} (process {self.here.pid})"


class _Interrupted(Exception):  # noqa: N818  leaves the run's loop, nothing else
    """The run was stopped, failed, or lost a process."""


class Conductor:
    """Leads one run.

    Attributes:
        state: how the run stands.
        n_users: users this run needs, over all processes.
        is_begun: it was started; it is never started again.
        is_stopped: Locust is ending it.
        is_closed: it is written and over.
        path: API path: a master sends nothing.
    """

    def __init__(self, session: Session, url: str, post: Post) -> None:
        self._session = session
        self._url = url
        self._post = post
        self._figures = SummedFigures()
        self.state = RunState(session, self._figures, self._stop, self._n_at_work)
        self.n_users = n_users_needed(session.plan, session.scenario.load.users)
        self.is_begun = False
        self.is_stopped = False
        self.is_closed = False
        self.path = ""
        self._hands: dict[str, _Hand] = {}
        self._crew: list[_Hand] = []
        self._news = Event()
        self._segment: Segment | None = None
        self._is_stopping = False
        self._has_ended = False

    def enter(self) -> None:
        """A master has no work for a user."""

    def hear(self, sender: str, message: Message) -> None:
        """Take note of what a worker says."""
        if isinstance(message, Here):
            known = self._hands.get(sender)
            if known is None:
                self._hands[sender] = _Hand(id=sender, here=message)
            else:
                known.here = message
        elif isinstance(message, (Ready, Done, FiguresReport, Closed)):
            hand = self._hands.get(sender)
            if hand is not None and message.run == self._session.run.id:
                self._note(hand, message)
        self._news.set()

    def run(self) -> None:
        """Gather, deal, and run segment after segment; returns when all is over and closed."""
        self.is_begun = True
        self.state.start()
        try:
            self._gather()
            self._deal()
            for position, segment in enumerate(self._session.plan.segments):
                self._run_segment(position, segment)
        except _Interrupted:
            pass
        except Exception as error:  # noqa: BLE001  border: whatever it is, the run must end
            self.fail(error)
        self.drain()

    def fail(self, error: Exception) -> None:
        """Something of ours broke: stop, and let the exit code say so."""
        self.state.fail(error)

    def drain(self, grace_s: float = DRAIN_GRACE_S) -> None:
        """Have every process drain and close; those that do not are lost."""
        self._stop()
        if not self._has_ended:
            self._has_ended = True
            self._tell(End(grace_s=grace_s))
        until = time.monotonic() + grace_s + CLOSE_LIMIT_S - DRAIN_GRACE_S
        while any(hand.is_open for hand in self._crew):
            self._listen()
            self._look_for_lost()
            if time.monotonic() > until:
                for hand in filter(lambda hand: hand.is_open, self._crew):
                    self._lose(hand, "did not end when it was told")

    def hurry(self) -> None:
        """A drain under way cancels now."""
        self._tell(End(grace_s=0.0))

    def close(self) -> None:
        """Write the run's end; safe to call twice."""
        if self.is_closed:
            return
        self.is_closed = True
        for hand in self._crew:
            if hand.is_lost:
                _kill_own_child(hand.here)
        healths = [hand.closed.health for hand in self._crew if hand.closed and hand.closed.health]
        worst = worst_account(healths, at_once=True)
        self.state.close({**worst, "workers": healths, "n_users_needed": self.n_users})

    def _gather(self) -> None:
        """Wait for the users; number the processes, those with more users first."""
        until = time.monotonic() + MUSTER_LIMIT_S
        while sum(hand.here.n_users for hand in self._hands.values()) < self.n_users:
            self._go_on()
            if time.monotonic() > until:
                n_users = sum(hand.here.n_users for hand in self._hands.values())
                self.fail(too_few_users(n_users, self.n_users))
        crew = sorted(self._hands.values(), key=lambda hand: -hand.here.n_users)
        for number, hand in enumerate(crew):
            hand.number = number
            self._require_this_machine(hand)
        self._crew = crew

    def _require_this_machine(self, hand: _Hand) -> None:
        if hand.here.boot != boot_id():
            self.fail(
                SetupError(
                    f"{hand.name} runs on another machine, whose clock is not this one's; "
                    "start every worker on this machine"
                )
            )
            raise _Interrupted

    def _deal(self) -> None:
        """Tell each process its part, and wait until all are ready."""
        run = self._session.run
        for hand in self._crew:
            order = Prepare(
                run=run.id,
                folder=str(Path(run.path).resolve()),
                url=self._url,
                number=hand.number,
                of=len(self._crew),
            )
            self._post.send(order, hand.id)
        while not all(hand.is_ready for hand in self._crew):
            self._go_on()

    def _run_segment(self, position: int, segment: Segment) -> None:
        """Begin it everywhere at one moment, and wait for everyone."""
        self._segment = segment
        self.state.start_segment(segment)
        self._tell(Begin(position=position, begun_ns=SystemClock().monotonic_ns() + BEGIN_LEAD_NS))
        while not all(hand.n_done > position for hand in self._crew):
            self._go_on()
        self.state.end_segment(is_whole=all(hand.n_whole > position for hand in self._crew))

    def _go_on(self) -> None:
        """Wait for news; leave when the run is to end."""
        if not self._is_stopping:
            self._listen()
            self._look_for_lost()
        if self._is_stopping:
            raise _Interrupted

    def _listen(self) -> None:
        self._news.wait(POLL_S)
        self._news.clear()

    def _note(self, hand: _Hand, message: Ready | Done | FiguresReport | Closed) -> None:
        match message:
            case Ready():
                hand.is_ready = True
            case Done():
                hand.n_done += 1
                hand.n_whole += int(message.is_whole)
            case FiguresReport():
                self._figures.take(hand.number, message)
            case Closed():
                hand.closed = message
                self._note_closed(hand, message)

    def _note_closed(self, hand: _Hand, closed: Closed) -> None:
        if closed.failure is not None:
            self.fail(WorkerFailed(f"{hand.name}: {closed.failure}", closed.exit_code))
        elif not self._is_stopping and hand.n_done < len(self._session.plan.segments):
            self._lose(hand, "was stopped")

    def _look_for_lost(self) -> None:
        present = self._post.present()
        now = time.monotonic()
        for hand in filter(lambda hand: hand.is_open, self._crew):
            is_gone = _is_gone(hand.here.pid)
            if not is_gone and hand.id in present:
                hand.silent_since = None
                continue
            hand.silent_since = hand.silent_since or now
            if now - hand.silent_since > (GONE_LIMIT_S if is_gone else ABSENT_LIMIT_S):
                self._lose(hand, "died" if is_gone else "gives no sign of life")

    def _lose(self, hand: _Hand, what: str) -> None:
        hand.is_lost = True
        where = f" during segment {self._segment.id}" if self._segment else ""
        self.state.lose(f"{hand.name} {what}{where}")
        self._stop()

    def _n_at_work(self) -> int:
        """Users of the processes that have not closed."""
        return sum(hand.here.n_users for hand in self._crew if hand.is_open)

    def _stop(self) -> None:
        self._is_stopping = True
        self._news.set()

    def _tell(self, message: Message) -> None:
        for hand in self._crew:
            if hand.is_open:
                self._post.send(message, hand.id)


def _is_gone(pid: int) -> bool:
    """Whether the process is no more, or only its entry is left."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return True
    except OSError:
        return False  # no /proc here: silence will tell
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}


def _kill_own_child(here: Here) -> None:
    """A child that hangs would be waited for at exit."""
    if here.parent == os.getpid():
        with contextlib.suppress(OSError):
            os.kill(here.pid, signal.SIGKILL)
