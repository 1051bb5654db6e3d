"""The load engine of one process: everything between its part of a plan and its last record.

Knows no Locust and no other process: whoever owns it lends greenlets, says when each segment may
begin, and closes the run.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import gevent
from gevent import get_hub

from harness.base.clock import SystemClock
from harness.base.errors import TailbreakError
from harness.base.scheduling import ask_for_priority, ask_for_short_slices
from harness.load import session as sessions
from harness.load.alarm import Alarm
from harness.load.client.adapters import build_adapter
from harness.load.client.deadlines import Timeouts
from harness.load.client.endpoint import resolve
from harness.load.client.http import HttpClient
from harness.load.client.keep_alive import KeepAlive
from harness.load.client.plain_http import PlainHttp
from harness.load.client.rx_timestamp import RxTimestamps
from harness.load.client_health import ClientHealth
from harness.load.dispatcher import Dispatcher
from harness.load.handout import Handout, Turns
from harness.load.materialise import Prompts, materialise
from harness.load.observers import Observer, StoreObserver
from harness.load.record_keeper import RecordKeeper, Report
from harness.load.session import Session
from harness.load.virtual_user import VirtualUser, Wording
from harness.plan.plan import Segment
from harness.records.about import read_about
from harness.records.columns import to_batch
from harness.records.request import Outcome, RequestRecord
from harness.records.shard import ShardWriter

DRAIN_GRACE_S: Final = 10.0
CANCEL_GRACE_S: Final = 5.0
_SAMPLE: Final = RequestRecord(outcome=Outcome.OK, intended_ns=0, token_ns=(1, 2), chunk_ns=(1, 2))

logger = logging.getLogger("tailbreak")


class LoadEngine:
    """Sends one process's part of a session's plan.

    Attributes:
        path: API path, for Locust's tables.
        is_closed: the shard is written and over.
    """

    def __init__(
        self,
        session: Session,
        url: str,
        report: Report,
        on_failure: Callable[[Exception], None],
        observers: Sequence[Observer] = (),
        worker: int = 0,
    ) -> None:
        """Prepare everything that is not measured.

        `report` hears of each record, with the bytes of its body, after the observers; `on_failure`
        of whatever of ours broke. `worker` numbers this process in its shard's name and its rows.

        Raises:
            SetupError: the target is not there, or the key is missing.
        """
        self._session = session
        scenario = session.scenario
        self._key = sessions.api_key(scenario)
        sessions.check_target(url, self._key)
        self._endpoint = resolve(url)
        self._keep_alive = KeepAlive()
        self._stamps = RxTimestamps.detect()
        adapter = build_adapter(scenario.target.api, scenario.target.omit)
        self._prompts = get_hub().threadpool.apply(
            self._build_prompts, (url, adapter.is_chat)
        )  # it may take minutes, in which this process must be heard of and be able to stop
        self._alarm = Alarm()
        self._dispatcher = Dispatcher(session.plan, round(scenario.load.think_time_s * 1e9))
        self._handout = Handout(self._dispatcher, self._alarm, SystemClock().monotonic_ns)
        self._health = ClientHealth(self._stamps, self._alarm.sleep_until)
        self._writer = ShardWriter(session.run.shards, f"session-{session.number}-load-{worker}")
        to_batch([_SAMPLE])  # the first conversion imports a lot: now, not beside a measurement
        self._observers: list[Observer] = [StoreObserver(self._writer), *observers]
        self._report = report
        self._on_failure = on_failure
        self._wording = Wording(
            adapter=adapter,
            model=scenario.target.model,
            ignore_eos=scenario.output.ignore_eos,
            api_key=self._key,
            run=read_about(session.run)["id"],
            session=session.number,
            prompts=self._prompts.by_segment,
            think_time_ns=round(scenario.load.think_time_s * 1e9),
        )
        self._keeper = RecordKeeper(adapter, self._on_record, on_failure, session.number, worker)
        self._users: list[VirtualUser] = []
        self._background: list[gevent.Greenlet[..., None]] = []
        self._is_begun = False
        self._is_hurried = False
        self._nice = 0
        self._has_short_slices = False
        self._has_exact_timer = self._alarm.is_exact
        self._is_ended = False
        self.is_closed = False
        self.path = adapter.path

    def _build_prompts(self, url: str, is_chat: bool) -> Prompts:  # noqa: FBT001
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

        client = HttpClient(self._endpoint, timeouts, self._stamps, self._keep_alive)
        user = VirtualUser(len(self._users), self._handout, client, self._wording, self._keeper)
        self._users.append(user)
        return user

    def run(self, turns: Turns) -> None:
        """Run the plan, each segment in its turn; returns when it is done or stopped."""
        assert not self._is_begun, "an engine runs once"
        self._is_begun = True
        self._nice = ask_for_priority()
        self._has_short_slices = ask_for_short_slices()
        self._health.start()
        self._background = [
            gevent.spawn(self._keeper.run),
            gevent.spawn(self._health.run_probe),
        ]
        try:
            self._handout.run(turns, self._start_segment, self._end_segment)
        except Exception as error:  # noqa: BLE001  border: whatever it is, the run must end
            self._on_failure(error)
        self._is_ended = True

    def stop(self) -> None:
        """Hand out nothing more; what is in flight goes on."""
        self._handout.stop()

    def drain(self, grace_s: float = DRAIN_GRACE_S) -> None:
        """Stop handing out, wait for what is in flight, then cancel it; each leaves its record."""
        self._handout.stop()
        if self._dispatcher.n_in_flight:
            logger.info(
                "waiting up to %g s for %d requests in flight; Ctrl-C again cancels them",
                grace_s, self._dispatcher.n_in_flight,
            )  # fmt: skip
        if self._is_begun and not self._wait_for_end(grace_s, may_hurry=True):
            logger.warning("cancelling %d requests in flight", self._dispatcher.n_in_flight)
            for user in self._users:
                user.cancel()
            self._wait_for_end(CANCEL_GRACE_S)

    def hurry(self) -> None:
        """Somebody is waiting for the end: a drain under way cancels now."""
        self._is_hurried = True

    def close(self) -> None:
        """Write what is left to write; safe to call twice."""
        if self.is_closed:
            return
        self.is_closed = True
        self._keeper.settle_rest()
        gevent.killall(self._background, block=False)  # nothing here may yield: two may call it
        self._health.close()
        try:
            self._writer.close()
        except TailbreakError as error:
            self._on_failure(error)
        self._alarm.close()
        self._keep_alive.close()
        self._stamps.close()

    @property
    def n_at_work(self) -> int:
        """Users that have not left."""
        return sum(user.is_at_work for user in self._users)

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is handed out."""
        return self._handout.is_stopping

    def health(self) -> dict[str, Any]:
        """This process about itself."""
        return {
            **self._health.summary(),
            "n_starved": self._dispatcher.n_starved,
            "max_starvation_s": self._dispatcher.max_wait_ns / 1e9,
            "n_due_unsent": self._dispatcher.n_due_unsent,
            "n_users": len(self._users),
            "connections_kept": self._keep_alive.is_kept,
            "short_slices": self._has_short_slices,
            "nice": self._nice,
            "exact_timer": self._has_exact_timer,
            "prompts_counted": self._prompts.is_counted,
            "n_inexact_prompts": self._prompts.n_inexact,
        }

    def _on_record(self, record: RequestRecord, n_bytes: int) -> None:
        try:
            for observer in self._observers:
                observer.on_record(record)
            self._report(record, n_bytes)
        finally:
            self._handout.recorded()

    def _wait_for_end(self, limit_s: float, *, may_hurry: bool = False) -> bool:
        until_ns = SystemClock().monotonic_ns() + int(limit_s * 1e9)
        while not self._is_ended and SystemClock().monotonic_ns() < until_ns:
            if may_hurry and self._is_hurried:
                break
            gevent.sleep(0.02)
        return self._is_ended

    def _start_segment(self, _segment: Segment) -> None:
        self._stamps.refresh(SystemClock().monotonic_ns())
        self._health.start_segment()

    def _end_segment(self, _segment: Segment) -> None:
        self._health.end_segment()
        self._writer.end_segment()
