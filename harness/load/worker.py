"""One load process under a master: makes ready, runs its part of each segment, says what it did.

Lives as long as one run; the next run has another.
"""

import os
from dataclasses import replace
from pathlib import Path

import gevent
from gevent.event import Event
from gevent.queue import Queue

from harness.base.clock import SystemClock
from harness.base.errors import ExitCode, TailbreakError
from harness.load.engine import DRAIN_GRACE_S, LoadEngine
from harness.load.messages import Begin, Closed, Done, End, Here, Message, Post, Prepare, Ready
from harness.load.messages import Report as FiguresReport
from harness.load.observers import LiveFigures
from harness.load.progress import PERIOD_S
from harness.load.record_keeper import Report
from harness.load.session import reopen
from harness.load.virtual_user import VirtualUser
from harness.plan.deal import Share, deal
from harness.records.environment import boot_id


class LoadWorker:
    """A run's part in this process.

    Attributes:
        is_stopped: Locust is ending it.
        is_closed: the part is written and the master knows.
    """

    def __init__(self, post: Post, report: Report) -> None:
        """`report` hears of each record, with the bytes of its body."""
        self._post = post
        self._report = report
        self._run = ""
        self._figures = LiveFigures()
        self._turns: Queue[Begin | None] = Queue()
        self._engine: LoadEngine | None = None
        self._failure: Exception | None = None
        self._preparing: gevent.Greenlet[..., None] | None = None
        self._is_ready = Event()
        self._n_users = 0
        self._finishing: gevent.Greenlet[..., None] | None = None
        self.is_stopped = False
        self.is_closed = False

    def enter(self) -> VirtualUser | None:
        """Work for one more Locust user; waits for the master, None when there is none."""
        self._n_users += 1
        here = Here(n_users=self._n_users, pid=os.getpid(), parent=os.getppid(), boot=boot_id())
        self._post.send(here)
        self._is_ready.wait()
        return self._engine.new_user() if self._engine and self._finishing is None else None

    def hear(self, message: Message) -> None:
        """Do what the master says."""
        match message:
            case Prepare():
                self._run = message.run
                self._preparing = gevent.spawn(self._work, message)
            case Begin():
                self._turns.put(message)
            case End():
                self._start_finishing(message.grace_s)
                if message.grace_s == 0:
                    self.hurry()

    @property
    def path(self) -> str:
        """API path, for Locust's tables."""
        return self._engine.path if self._engine else ""

    def begin(self, position: int) -> int | None:
        """Wait for the master to begin the engine's next segment."""
        turn = self._turns.get()
        if turn is None:
            return None
        assert turn.position == position, "segments come in the plan's order"
        gevent.sleep(max(0.0, (turn.begun_ns - SystemClock().monotonic_ns()) / 1e9))
        return turn.begun_ns

    def end(self, position: int, *, is_whole: bool) -> None:
        """Tell the master that this part of the segment is over."""
        self._post.send(self._figures_report())
        self._post.send(Done(run=self._run, position=position, is_whole=is_whole))

    def fail(self, error: Exception) -> None:
        """Something of ours broke: stop; the master will hear of it."""
        if self._failure is None:
            self._failure = error
            if self._engine is not None:
                self._engine.stop()
            self._turns.put(None)

    def drain(self, grace_s: float = DRAIN_GRACE_S) -> None:
        """Wait for what is in flight, cancel the rest, write it and tell the master."""
        self._start_finishing(grace_s).join()

    def close(self) -> None:
        """Nothing more: draining has written everything."""

    def _start_finishing(self, grace_s: float) -> "gevent.Greenlet[..., None]":
        """In a greenlet of its own: an interrupt must not end it in its middle."""
        if self._finishing is None:
            self._finishing = gevent.spawn(self._finish, grace_s)
        return self._finishing

    def _finish(self, grace_s: float) -> None:
        if self._engine is None and self._preparing is not None:
            self._preparing.kill()
        self._turns.put(None)
        health = {}
        try:
            if self._engine is not None:
                self._engine.drain(grace_s)
                self._engine.close()
                health = self._engine.health()
            self._post.send(self._figures_report())
            self._post.send(self._closed(health))
        finally:  # whoever waits for the end would wait for ever
            self._is_ready.set()
            self.is_closed = True

    def hurry(self) -> None:
        """A drain under way cancels now."""
        if self._engine is not None:
            self._engine.hurry()

    def _work(self, order: Prepare) -> None:
        """Make ready, run every segment, finish."""
        try:
            self._engine = self._build(order)
        except Exception as error:  # noqa: BLE001  border: the master ends the run with this
            self.fail(error)
        else:
            self._is_ready.set()
            reporting = gevent.spawn(self._report_figures)
            self._post.send(Ready(run=order.run))
            self._engine.run(self)
            reporting.kill()
        self.drain()

    def _build(self, order: Prepare) -> LoadEngine:
        whole = reopen(Path(order.folder))
        share = Share(number=order.number, of=order.of)
        part = replace(whole, plan=deal(whole.plan, share, whole.scenario.load.users))
        return LoadEngine(part, order.url, self._report, self.fail, [self._figures], order.number)

    def _report_figures(self) -> None:
        while True:
            self._post.send(self._figures_report())
            gevent.sleep(PERIOD_S)

    def _figures_report(self) -> FiguresReport:
        figures = self._figures
        return FiguresReport(
            run=self._run,
            n_records=figures.n_records,
            n_ok=figures.n_ok,
            n_failed=figures.n_failed,
            ttft_ns=figures.take_fresh(),
        )

    def _closed(self, health: dict[str, object]) -> Closed:
        if self._failure is None:
            return Closed(run=self._run, health=health)
        code = getattr(self._failure, "exit_code", ExitCode.INPUT_OR_SETUP)
        text = str(self._failure)
        if not isinstance(self._failure, TailbreakError):
            text = repr(self._failure)
        return Closed(run=self._run, health=health, failure=text, exit_code=int(code))
