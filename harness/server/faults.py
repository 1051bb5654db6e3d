"""Planted faults: `tailbreak serve --faults "attention:40%,stall:300ms@5s"`.

So that a harness can be checked against a truth it did not choose: each fault's time is charged to
a known phase. Off without the option, and out of reach of any request. Here: the words, and the
pauses of the engine. The journal obeys `store_delay_s`, its `connections` the pause of that name,
the streams `drop_every`, the front `error_every`, the scheduler `alloc_every`, `garbage` its rate.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.server.garbage import collect_for, spin_until
from harness.server.phases import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.server.phases import GcPauses

SLOWABLE_PHASES: Final = ("embed", "mask", "attention", "ffn", "kv", "penalty", "sample")
ALLOWED: Final = (
    f"a comma list of PHASE:X% (PHASE one of {', '.join(SLOWABLE_PHASES)}; X up to 1000), "
    "stall:D@P, gc:D@P, exhaust:D@P, connections:D@P, store:D, garbage:XMB/s, alloc:1/N, drop:1/N "
    "and error:1/N (D and P such as 300ms or 5s, at most an hour, D shorter than P; X of garbage "
    "up to 1000; N of alloc at least 2), each at most once"
)
_MOST_PERCENT: Final = 1000
_MOST_MB_PER_S: Final = 1000
_PAUSES: Final = ("stall", "gc", "exhaust", "connections")
_LONGEST_S: Final = 3600.0
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A pause of `duration_s` every `period_s`."""

    duration_s: float
    period_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """What is planted; the defaults plant nothing.

    Attributes:
        words: The words this was read from; `str()` joins them again.
        slowdowns: Added share of each slowed phase: 0.4 makes it 1.4 times as long.
        stall: The engine does nothing; charged to `stall`.
        gc: One search for garbage lasts so long; charged to `gc`.
        exhaust: Every sequence loses its KV memory and nobody gets any; charged to `kv_wait`.
        connections: All connections to the store are taken; charged to `store`.
        garbage_bytes_per_s: Cyclic garbage the engine makes while it has work.
        alloc_every: Every so many allocations of KV memory one fails, as if none were free.
        store_delay_s: Added to every write of the journal.
        drop_every: Every so many streams one is cut before its end.
        error_every: Every so many requests for text one is answered 500.
    """

    words: tuple[str, ...] = ()
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    stall: Pause | None = None
    gc: Pause | None = None
    exhaust: Pause | None = None
    connections: Pause | None = None
    garbage_bytes_per_s: float = 0.0
    alloc_every: int | None = None
    store_delay_s: float = 0.0
    drop_every: int | None = None
    error_every: int | None = None

    def __str__(self) -> str:
        """The text that `read_faults` reads as the same faults."""
        return ",".join(self.words)


NO_FAULTS: Final = Faults()


def read_faults(text: str) -> Faults:
    """Read the option's words.

    Raises:
        ValueError: A word is unknown, out of range, or given twice; says what is allowed.
    """
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    names = [word.partition(":")[0] for word in words]
    values: dict[str, object] = {}
    slowdowns: dict[str, float] = {}
    for word, name in zip(words, names, strict=True):
        if names.count(name) > 1:
            raise _refusal(word)
        if name in SLOWABLE_PHASES:
            slowdowns[name] = _read_share(word)
        else:
            values |= _read_event(word)
    return Faults(words=tuple(words), slowdowns=slowdowns, **values)  # type: ignore[arg-type]


def _read_share(word: str) -> float:
    """Read `PHASE:X%`."""
    match = re.fullmatch(r"\w+:(\d+(?:\.\d+)?)%", word, re.ASCII)
    if match is None or not 0 < float(match[1]) <= _MOST_PERCENT:
        raise _refusal(word)
    return float(match[1]) / 100


def _read_event(word: str) -> dict[str, object]:
    """Read one of the faults that are no slowdown; the field it sets."""
    name, _, value = word.partition(":")
    if name in _PAUSES:
        duration, _, period = value.partition("@")
        pause = Pause(
            duration_s=_read_duration(duration, word), period_s=_read_duration(period, word)
        )
        if pause.duration_s >= pause.period_s:
            raise _refusal(word)
        return {name: pause}
    if name == "store":
        return {"store_delay_s": _read_duration(value, word)}
    if name == "garbage":
        return {"garbage_bytes_per_s": _read_rate(word)}
    match = re.fullmatch(r"(drop|alloc|error):1/([1-9][0-9]{0,8})", word, re.ASCII)
    if match is None or match.groups() == ("alloc", "1"):  # nobody would ever get memory
        raise _refusal(word)
    return {f"{name}_every": int(match[2])}


def _read_duration(text: str, word: str) -> float:
    """Read `300ms` or `5s`, in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _refusal(word)
    seconds = float(match[1]) * (0.001 if match[2] == "ms" else 1.0)
    if not 0 < seconds <= _LONGEST_S:
        raise _refusal(word)
    return seconds


def _read_rate(word: str) -> float:
    """Read `garbage:12MB/s`, in bytes per second."""
    match = re.fullmatch(r"garbage:(\d+(?:\.\d+)?)MB/s", word, re.ASCII)
    if match is None or not 0 < float(match[1]) <= _MOST_MB_PER_S:
        raise _refusal(word)
    return float(match[1]) * 1e6


def _refusal(word: str) -> ValueError:
    return ValueError(f"{word!r} is not allowed; allowed is {ALLOWED}")


class SlowedStopwatch(Stopwatch):
    """A stopwatch that makes the laps of slowed phases longer before it takes them."""

    def __init__(self, pauses: GcPauses, slowdowns: Mapping[str, float]) -> None:
        super().__init__(pauses)
        self._slowdowns = slowdowns

    def lap(self, phase: str) -> int:
        """Spend the phase's added share, then charge the whole."""
        share = self._slowdowns.get(phase)
        if share is not None:
            now = time.perf_counter_ns()
            spin_until(now + round(share * (now - self.last_ns)))
        return super().lap(phase)


class PlannedPauses:
    """The engine's pauses: each before the first step after its period.

    Args:
        faults: What is planted.
        start_ns: When the periods begin.
        evict_all: Takes every sequence's KV memory.
    """

    def __init__(self, faults: Faults, start_ns: int, evict_all: Callable[[], None]) -> None:
        planned = (("stall", faults.stall), ("gc", faults.gc), ("kv_wait", faults.exhaust))
        self._pauses = [(phase, pause) for phase, pause in planned if pause is not None]
        self._evict_all = evict_all
        self._due_ns = {phase: start_ns + _in_ns(pause.period_s) for phase, pause in self._pauses}

    def take(self, watch: Stopwatch) -> None:
        """Spend the pauses that are due and charge them to their phase."""
        for phase, pause in self._pauses:
            if watch.last_ns < self._due_ns[phase]:
                continue
            began_ns = watch.lap("stream")
            if phase == "gc":
                collect_for(pause.duration_s)
            else:
                if phase == "kv_wait":
                    self._evict_all()
                time.sleep(pause.duration_s)
            watch.lap(phase)
            while self._due_ns[phase] <= began_ns:
                self._due_ns[phase] += _in_ns(pause.period_s)


def _in_ns(seconds: float) -> int:
    return round(seconds * 1e9)
