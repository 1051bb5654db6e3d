"""The master of several load processes, told directly what workers say."""

import os
from pathlib import Path

import gevent
import msgpack  # type: ignore[import-untyped]  # Locust's own
import pytest

from harness.base.errors import ExitCode
from harness.load import session as sessions
from harness.load.conductor import Conductor
from harness.load.messages import (
    Begin,
    Closed,
    Done,
    End,
    Here,
    Message,
    Prepare,
    Ready,
    Report,
    decode,
    encode,
)
from harness.records.environment import boot_id
from harness.scenario.read import validate_scenario
from tests.e2e.truth_process import scenario_values

EVERY: list[Message] = [
    Here(n_users=2, pid=7, parent=6, boot="b"),
    Prepare(run="r", folder="/f", url="http://h", number=1, of=2),
    Ready(run="r"),
    Begin(position=3, begun_ns=2**60),
    Done(run="r", position=3, is_whole=True),
    Report(run="r", n_records=3, n_ok=2, n_failed=1, ttft_ns=[5, 6]),
    End(grace_s=10.0),
    Closed(run="r", health={"cpu_share": 0.5, "stamps": "kernel"}, failure="gone", exit_code=2),
]


class Crew:
    """Workers' side of the connection: keeps what the master says, answers as told."""

    def __init__(self, folder: Path) -> None:
        scenario = validate_scenario(scenario_values(concurrency=2), "test")
        self.run = sessions.prepare(scenario, "http://127.0.0.1:9", folder)
        self.conductor = Conductor(sessions.reopen(self.run.path), "http://127.0.0.1:9", self)
        self.said: list[tuple[str | None, Message]] = []
        self.breaks_at: type[Message] | None = None

    def send(self, message: Message, to: str | None = None) -> None:
        """What the master says; a worker that is to end closes at once."""
        if type(message) is self.breaks_at:
            raise OSError("planted")
        self.said.append((to, message))
        if isinstance(message, End):
            self.say(to or "", Closed(run=self.run.id))

    def present(self) -> set[str]:
        """Both give signs of life."""
        return {"a", "b"}

    def say(self, sender: str, message: Message) -> None:
        """A worker's message arrives."""
        self.conductor.hear(sender, message)

    def here(self, *senders: str, boot: str | None = None) -> None:
        """Each says that it has one user; all are this very process."""
        for sender in senders:
            boot = boot or boot_id()
            self.say(sender, Here(n_users=1, pid=os.getpid(), parent=1, boot=boot))

    def heard(self, kind: type[Message]) -> list[str | None]:
        """To whom the master said this."""
        return [to for to, message in self.said if isinstance(message, kind)]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_messages_survive_the_wire(message: Message) -> None:
    """Every kind, packed as Locust packs it, is read back unchanged."""
    assert decode(msgpack.loads(msgpack.dumps(encode(message)))) == message


def test_a_worker_on_another_machine_is_refused(tmp_path: Path) -> None:
    """Its clock cannot be compared: exit code 2, and nobody is told to prepare."""
    crew = Crew(tmp_path)
    crew.here("a")
    crew.here("b", boot="another")
    crew.conductor.run()
    crew.conductor.close()
    assert crew.conductor.state.exit_code is ExitCode.INPUT_OR_SETUP
    assert "another machine" in str(crew.conductor.state.failure)
    assert crew.heard(Prepare) == []


def test_a_segment_begins_for_all_when_the_one_before_is_done_by_all(tmp_path: Path) -> None:
    """The second `Begin` waits for the last `Done`; both workers hear the same moment."""
    crew = Crew(tmp_path)
    crew.here("a", "b")
    leading = gevent.spawn(crew.conductor.run)
    until(lambda: len(crew.heard(Prepare)) == 2)
    crew.say("a", Ready(run=crew.run.id))
    crew.say("b", Ready(run=crew.run.id))
    until(lambda: len(crew.heard(Begin)) == 2)
    (one, two) = [message for _, message in crew.said if isinstance(message, Begin)]
    assert one == two
    crew.say("a", Done(run=crew.run.id, position=0, is_whole=True))
    crew.say("b", Done(run="an earlier run", position=0, is_whole=True))
    gevent.sleep(0.3)
    assert len(crew.heard(Begin)) == 2
    crew.say("b", Done(run=crew.run.id, position=0, is_whole=True))
    until(lambda: len(crew.heard(Begin)) == 4)
    crew.conductor.drain(0.0)
    leading.join(timeout=30)
    crew.conductor.close()
    assert crew.conductor.state.lost == []
    assert crew.run.read_json("progress.json")["segments_done"] == 1


def test_a_worker_that_leaves_in_the_middle_is_lost(tmp_path: Path) -> None:
    """It closed by itself before its part was done: the run is partial and says which."""
    crew = Crew(tmp_path)
    crew.here("a", "b")
    leading = gevent.spawn(crew.conductor.run)
    until(lambda: len(crew.heard(Prepare)) == 2)
    crew.say("a", Closed(run=crew.run.id))
    leading.join(timeout=30)
    crew.conductor.close()
    assert [text.split(" (")[0] for text in crew.conductor.state.lost] == ["worker 0"]
    assert crew.heard(End) == ["b"]
    assert crew.conductor.state.exit_code is ExitCode.UNDECIDED


def test_a_defect_of_the_masters_own_ends_the_run(tmp_path: Path) -> None:
    """The connection breaks in a way nobody foresaw: no hang, the run is closed and exits 2."""
    crew = Crew(tmp_path)
    crew.here("a", "b")
    crew.breaks_at = Prepare
    crew.conductor.run()
    crew.conductor.close()
    assert crew.conductor.state.exit_code is ExitCode.INPUT_OR_SETUP
    assert crew.run.read_json("run.json")["status"] == "partial"


def test_a_repeated_report_counts_once(tmp_path: Path) -> None:
    """Counts are of the whole run so far: the newest of each worker stands."""
    crew = Crew(tmp_path)
    crew.here("a", "b")
    leading = gevent.spawn(crew.conductor.run)
    until(lambda: len(crew.heard(Prepare)) == 2)
    report = Report(run=crew.run.id, n_records=3, n_ok=3, n_failed=0, ttft_ns=[])
    for sender in ("a", "a", "b"):
        crew.say(sender, report)
    crew.conductor.drain(0.0)
    leading.join(timeout=30)
    crew.conductor.close()
    assert "6 of 56 requests recorded" in crew.conductor.state.summary


def until(condition: object) -> None:
    assert callable(condition)
    with gevent.Timeout(30):
        while not condition():
            gevent.sleep(0.01)
