"""One load process under a master, told directly what the master says."""

import gevent
import pytest

from harness.load.messages import Closed, End, Message
from harness.load.worker import LoadWorker


class Master:
    """Keeps what the worker says; may break when it says it."""

    def __init__(self, breaks_at: type[Message] | None = None) -> None:
        self.said: list[Message] = []
        self._breaks_at = breaks_at

    def send(self, message: Message, to: str | None = None) -> None:  # noqa: ARG002
        """What the worker says."""
        if type(message) is self._breaks_at:
            raise OSError("planted")
        self.said.append(message)

    def present(self) -> set[str]:
        """A worker knows no other."""
        return set()


def nothing(*_: object) -> None:
    pass


def test_a_worker_that_was_never_told_to_prepare_closes_when_told() -> None:
    """`End` alone: its waiting users get nothing, the master hears that it is closed."""
    master = Master()
    worker = LoadWorker(master, nothing)
    user = gevent.spawn(worker.enter)
    gevent.sleep(0)
    worker.hear(End(grace_s=0.0))
    assert user.get(timeout=10) is None
    worker.drain()
    assert worker.is_closed
    assert isinstance(master.said[-1], Closed)


def test_a_worker_whose_end_breaks_is_closed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits for it goes on, and what broke reaches the hub, which prints it."""
    told: list[str] = []

    def note(_context: object, _kind: object, value: object, _trace: object) -> None:
        told.append(str(value))

    monkeypatch.setattr(gevent.get_hub(), "handle_error", note)
    worker = LoadWorker(Master(breaks_at=Closed), nothing)
    worker.drain()
    assert worker.is_closed
    assert told == ["planted"]
