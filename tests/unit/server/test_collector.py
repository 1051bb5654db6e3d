"""`gc_tuned`: when the engine and the front search for cyclic garbage, and when they do not."""

import asyncio
import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from harness.server import collector as subject
from harness.server.collector import QUIET_S, Collector, FrontCollector
from harness.server.engine import Engine, StepEvents
from harness.server.engine_process import FrontGoneError, FrontLink, serve_front
from harness.server.faults import NO_FAULTS, Faults, read_faults
from harness.server.frames import FrameReader, encode_frame
from harness.server.phases import Stopwatch
from tests.unit.server import build

N_CYCLES = 3000


@pytest.fixture(autouse=True)
def own_rule() -> Iterator[None]:
    """Every test leaves the interpreter with its own rule."""
    yield
    gc.unfreeze()
    gc.enable()


class Knot:
    """Garbage that only a search can find."""

    def __init__(self) -> None:
        self.itself = self


def litter() -> weakref.ref[Knot]:
    return weakref.ref(Knot())


class Searches:
    """Searches seen from the engine's thread: `busy` inside steps, the rest between them."""

    def __init__(self, engine: Engine, n_cycles: int) -> None:
        self.engine, self.n_cycles = engine, n_cycles
        self.busy = self.between = 0
        self._is_in_step = False
        self._thread = 0
        self._step = engine.step

    def step(self, watch: Stopwatch, *, was_idle: bool) -> StepEvents:
        """A step that also makes garbage."""
        self._thread, self._is_in_step = threading.get_ident(), True
        for _ in range(self.n_cycles):
            Knot()
        events = self._step(watch, was_idle=was_idle)
        self._is_in_step = False
        return events

    def note(self, moment: str, _: Any) -> None:
        """One of the collector's callbacks."""
        if moment == "start" and threading.get_ident() == self._thread:
            self.busy += self._is_in_step
            self.between += not self._is_in_step


def serve(
    monkeypatch: pytest.MonkeyPatch,
    features: list[str],
    *,
    n_cycles: int = N_CYCLES,
    faults: Faults = NO_FAULTS,
) -> tuple[Searches, list[dict[str, int]]]:
    """Let the engine's loop answer two requests, with a quiet moment after each; its accounts."""
    searches = Searches(build.engine(), n_cycles)
    monkeypatch.setattr(searches.engine, "step", searches.step)
    gc.callbacks.append(searches.note)
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=_run, args=(theirs, searches.engine, faults))
    thread.start()
    accounts = []
    try:
        reader = FrameReader()
        for number in (1, 2):
            ours.sendall(encode_frame(_add(number, features)))
            ends: list[Any] = []
            while not ends:
                ends = [end for frame in reader.feed(ours.recv(1 << 16)) for end in frame["ends"]]
            accounts.append(ends[0][5])
            threading.Event().wait(20 * QUIET_S)
    finally:
        ours.close()
        thread.join()
        gc.callbacks.remove(searches.note)
    return searches, accounts


def _run(end: socket.socket, engine: Engine, faults: Faults) -> None:
    with end, pytest.raises(FrontGoneError):
        serve_front(FrontLink(end), engine, faults, Collector())
    gc.callbacks.pop()  # the loop's own listener


def _add(number: int, features: list[str]) -> dict[str, Any]:
    return {
        "do": "add",
        "id": number,
        "features": features,
        "tokens": build.prompt(20),
        "segments": [("content", 12, ())],
        "params": {"temperature": 0.0, "ignore_eos": True},
        "sent_ns": 0,
        "n_accounts": 4,
    }


def test_a_tuned_engine_searches_at_idle_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps full of garbage are never interrupted; each quiet moment searches once."""
    searches, accounts = serve(monkeypatch, ["gc_tuned"])
    assert (searches.busy, searches.between) == (0, 2)
    assert not any(account.get("gc") for account in accounts)


def test_by_default_the_interpreter_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same garbage is searched for in the middle of steps, which the account shows."""
    searches, accounts = serve(monkeypatch, [])
    assert searches.busy > 10
    assert all(account["gc"] > 0 for account in accounts)


def test_a_planted_pause_shows_in_a_tuned_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `gc` fault searches whatever the mode says, and is charged to `gc`."""
    faults = read_faults("gc:20ms@21ms")
    _, accounts = serve(monkeypatch, ["gc_tuned"], n_cycles=0, faults=faults)
    assert max(account.get("gc", 0) for account in accounts) > 1e6


def test_a_busy_tuned_engine_searches_before_garbage_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past the bound it searches between steps, not inside one."""
    monkeypatch.setattr(subject, "MOST_NEW_OBJECTS", 5 * N_CYCLES)
    searches, accounts = serve(monkeypatch, ["gc_tuned"])
    assert searches.busy == 0
    assert searches.between > 2
    assert sum(account.get("gc", 0) for account in accounts) > 0


def test_old_garbage_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What outlived a search and then became garbage is found when there is much of it."""
    monkeypatch.setattr(subject, "MOST_NEW_OBJECTS", 1000)
    collector = Collector()
    collector.tune(is_tuned=True)
    collector.tidy()
    kept = [Knot() for _ in range(2000)]
    traces = [weakref.ref(knot) for knot in kept]
    collector.tidy()
    kept.clear()
    collector.tidy()
    assert not any(trace() for trace in traces)
    collector.tune(is_tuned=False)


def test_the_interpreters_rule_comes_back_whole() -> None:
    """After tuning nothing stays frozen, the search is on, and thresholds are as they were."""
    before = gc.get_threshold()
    collector = Collector()
    collector.tune(is_tuned=True)
    assert not gc.isenabled()
    collector.tidy()
    assert gc.get_freeze_count() > 1000
    collector.tune(is_tuned=False)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


def test_the_front_is_tuned_while_all_in_flight_ask_for_it() -> None:
    """One request that did not ask gives everybody the default; the last one leaves quiet."""

    async def scene() -> None:
        front = FrontCollector()
        front.enter("a", is_tuned=True)
        assert not gc.isenabled()
        front.enter("b", is_tuned=False)
        assert gc.isenabled()
        front.leave("b")
        assert not gc.isenabled()
        trace = litter()
        front.leave("a")
        front.leave("a")
        await asyncio.sleep(5 * QUIET_S)
        assert trace() is None
        front.close()
        assert gc.isenabled()

    asyncio.run(scene())


def test_a_front_that_is_busy_again_is_left_alone() -> None:
    """A request that comes within the quiet moment is not searched under."""

    async def scene() -> None:
        front = FrontCollector()
        front.enter("a", is_tuned=True)
        trace = litter()
        front.leave("a")
        front.enter("b", is_tuned=True)
        await asyncio.sleep(5 * QUIET_S)
        assert trace() is not None
        front.close()

    asyncio.run(scene())
