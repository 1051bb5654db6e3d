"""The load engine of one process: everything between a prepared run folder and its last record.

Knows no Locust: the user classes lend it greenlets and tell it when to begin and to stop, tests do
the same directly.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gevent

from harness.base.clock import SystemClock
from harness.base.errors import ExitCode, TailbreakError
from harness.load import session as sessions
from harness.load.alarm import Alarm
from harness.load.client.adapters import build_adapter
from harness.load.client.deadlines import Timeouts
from harness.load.client.endpoint import resolve
from harness.load.client.http import HttpClient
from harness.load.client.plain_http import PlainHttp
from harness.load.client.rx_timestamp import RxTimestamps
from harness.load.client_health import ClientHealth
from harness.load.dispatcher import Dispatcher
from harness.load.handout import Handout
from harness.load.materialise import Prompts, materialise
from harness.load.observers import LiveFigures, Observer, StoreObserver
from harness.load.progress import PERIOD_S, Progress
from harness.load.record_keeper import RecordKeeper, Report
from harness.load.scheduling import ask_for_priority, ask_for_short_slices
from harness.load.session import Session
from harness.load.virtual_user import VirtualUser, Wording
from harness.plan.plan import Segment
from harness.records.columns import to_batch
from harness.records.request import Outcome, RequestRecord
from harness.records.shard import ShardWriter

DRAIN_GRACE_S: Final = 10.0
CANCEL_GRACE_S: Final = 5.0
WRITER: Final = "load-0"
_SAMPLE: Final = RequestRecord(outcome=Outcome.OK, intended_ns=0, token_ns=(1, 2), chunk_ns=(1, 2))

logger = logging.getLogger("tailbreak")


class LoadEngine:
    """Runs one session.

    Attributes:
        n_users: users this run needs.
        path: API path, for Locust's tables.
        is_closed: the run is written and over.
    """

    def __init__(
        self, session: Session, url: str, report: Report, observers: Sequence[Observer] = ()
    ) -> None:
        """Prepare everything that is not measured.

        `report` hears of each record, with the bytes of its body, after the observers.

        Raises:
            SetupError: the target is not there, or the key is missing.
        """
        self._session = session
        scenario, run = session.scenario, session.run
        self._key = sessions.api_key(scenario)
        sessions.check_target(url, self._key)
        self._endpoint = resolve(url)
        self._stamps = RxTimestamps.detect()
        adapter = build_adapter(scenario.target.api, scenario.target.omit)
        self._prompts = self._build_prompts(url, is_chat=adapter.is_chat)
        self._alarm = Alarm()
        self._dispatcher = Dispatcher(session.plan, round(scenario.load.think_time_s * 1e9))
        self._handout = Handout(self._dispatcher, self._alarm, SystemClock().monotonic_ns)
        self._figures = LiveFigures()
        self._progress = Progress(session, self._dispatcher, self._figures)
        self._health = ClientHealth(self._stamps, self._alarm.sleep_until)
        self._writer = ShardWriter(run.shards, f"session-{session.number}-{WRITER}")
        to_batch([_SAMPLE])  # the first conversion imports a lot: now, not beside a measurement
        self._observers: list[Observer] = [StoreObserver(self._writer), self._figures, *observers]
        self._report = report
        self._wording = Wording(
            adapter=adapter,
            model=scenario.target.model,
            ignore_eos=scenario.output.ignore_eos,
            api_key=self._key,
            prompts=self._prompts.by_segment,
            think_time_ns=round(scenario.load.think_time_s * 1e9),
        )
        self._keeper = RecordKeeper(adapter, self._on_record, self.fail, session.number)
        self._users: list[VirtualUser] = []
        self._background: list[gevent.Greenlet[..., None]] = []
        self._failure: Exception | None = None
        self._is_begun = False
        self._nice = 0
        self._has_short_slices = False
        self._is_ended = False
        self.is_closed = False
        self.n_users = self._dispatcher.n_users_needed(scenario.load.users)
        self.path = adapter.path

    def _build_prompts(self, url: str, *, is_chat: bool) -> Prompts:
        target = self._session.scenario.target
        http = PlainHttp(url, self._key)
        try:
            prompts = materialise(self._session.plan, http, target.model, is_chat=is_chat)
        finally:
            http.close()
        if not prompts.is_counted:
            logger.warning("the target counts no tokens for us: prompt lengths are approximate")
        elif prompts.n_inexact:
            logger.warning("%d prompts have not the exact length asked for", prompts.n_inexact)
        return prompts

    def new_user(self) -> VirtualUser:
        """Another user, to be run in a greenlet of its own."""
        load = self._session.scenario.load
        timeouts = Timeouts(
            connect_s=load.connect_timeout_s,
            idle_s=load.idle_timeout_s,
            total_s=load.total_timeout_s,
        )

        client = HttpClient(self._endpoint, timeouts, self._stamps)
        user = VirtualUser(len(self._users), self._handout, client, self._wording, self._keeper)
        self._users.append(user)
        return user

    def run(self) -> None:
        """Run the plan; returns when it is done or stopped."""
        if self._is_begun:
            logger.error("this run is over; start again for another")
            return
        self._is_begun = True
        self._nice = ask_for_priority()
        self._has_short_slices = ask_for_short_slices()
        self._health.start()
        self._background = [
            gevent.spawn(self._keeper.run),
            gevent.spawn(self._health.run_probe),
            gevent.spawn(self._write_progress),
        ]
        try:
            self._handout.run(self._start_segment, self._end_segment)
        except Exception as error:  # noqa: BLE001  border: whatever it is, the run must end
            self.fail(error)
        self._is_ended = True

    def fail(self, error: Exception) -> None:
        """Something of ours broke: stop, and let the exit code say so."""
        if self._failure is None:
            self._failure = error
            logger.error("%s", error)
            self._handout.stop()

    def drain(self, grace_s: float = DRAIN_GRACE_S) -> None:
        """Stop handing out, wait for what is in flight, then cancel it; each leaves its record."""
        self._handout.stop()
        if self._is_begun and not self._wait_for_end(grace_s):
            logger.warning("cancelling %d requests in flight", self._dispatcher.n_in_flight)
            for user in self._users:
                user.cancel()
            self._wait_for_end(CANCEL_GRACE_S)

    def close(self) -> None:
        """Write what is left to write; safe to call twice."""
        if self.is_closed:
            return
        self.is_closed = True
        self._keeper.settle_rest()
        gevent.killall(self._background, block=False)  # nothing here may yield: two may call it
        self._health.close()
        for write in (self._writer.close, self._write_client, self._write_end):
            try:
                write()
            except TailbreakError as error:
                self.fail(error)
        self._alarm.close()
        self._stamps.close()

    @property
    def is_begun(self) -> bool:
        """Whether the plan was started."""
        return self._is_begun

    @property
    def run_path(self) -> Path:
        """The run's folder."""
        return self._session.run.path

    @property
    def n_registered(self) -> int:
        """Users made so far."""
        return len(self._users)

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is handed out."""
        return self._handout.is_stopping

    @property
    def is_failed(self) -> bool:
        """Whether something of ours broke."""
        return self._failure is not None

    @property
    def exit_code(self) -> ExitCode:
        """What this run deserves: 2, 5, 1, 0 in this order."""
        if self._failure is not None:
            code = getattr(self._failure, "exit_code", ExitCode.INPUT_OR_SETUP)
            return ExitCode(code)
        n = self._figures.n_ok + self._figures.n_failed
        if self._figures.n_ok == 0 or not self._is_complete:
            return ExitCode.UNDECIDED
        if self._figures.n_failed > self._session.scenario.limits.failed_share * n:
            return ExitCode.REQUESTS_FAILED
        return ExitCode.PASS

    @property
    def summary(self) -> str:
        """The run in one line."""
        figures, session = self._figures, self._session
        state = "complete" if self._is_complete else "partial"
        return (
            f"{state}: {session.n_segments_done + self._dispatcher.n_segments_done} of "
            f"{len(session.whole.segments)} segments, {session.n_done + figures.n_records} of "
            f"{session.n_done + session.plan.n_requests} requests recorded, "
            f"{figures.n_failed} failed; {session.run.path}"
        )

    @property
    def _is_complete(self) -> bool:
        is_whole = self._dispatcher.n_segments_done == len(self._session.plan.segments)
        return is_whole and self._failure is None and not self._handout.is_stopping

    def _on_record(self, record: RequestRecord, n_bytes: int) -> None:
        try:
            for observer in self._observers:
                observer.on_record(record)
            self._report(record, n_bytes)
        finally:
            self._handout.recorded()

    def _wait_for_end(self, limit_s: float) -> bool:
        until_ns = SystemClock().monotonic_ns() + int(limit_s * 1e9)
        while not self._is_ended and SystemClock().monotonic_ns() < until_ns:
            gevent.sleep(0.02)
        return self._is_ended

    def _start_segment(self, segment: Segment) -> None:
        self._progress.start_segment(segment)
        self._stamps.refresh(SystemClock().monotonic_ns())
        self._health.start_segment()

    def _end_segment(self, _segment: Segment) -> None:
        self._health.end_segment()
        self._writer.end_segment()
        self._progress.write_in_background()

    def _write_progress(self) -> None:
        while not self.is_failed:
            try:
                self._progress.write_in_background()
            except TailbreakError as error:
                self.fail(error)
            gevent.sleep(PERIOD_S)

    def _write_client(self) -> None:
        name = self._session.run.file_of_session("client.json", self._session.number)
        self._session.run.write_json(name, self._describe_client())

    def _write_end(self) -> None:
        self._progress.write("done" if self._is_complete else "aborted")
        sessions.close(self._session.run, is_complete=self._is_complete)

    def _describe_client(self) -> dict[str, object]:
        return {
            **self._health.summary(),
            "n_starved": self._dispatcher.n_starved,
            "max_starvation_s": self._dispatcher.max_wait_ns / 1e9,
            "n_users": len(self._users),
            "n_users_needed": self.n_users,
            "short_slices": self._has_short_slices,
            "nice": self._nice,
            "exact_timer": self._alarm.is_exact,
            "prompts_counted": self._prompts.is_counted,
            "n_inexact_prompts": self._prompts.n_inexact,
        }
