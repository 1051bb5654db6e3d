"""Timing of a few ways to do the same thing, alternating, in one process.

Each round times every contender, in an order that turns around from round to round, so that what
slows the machine slows all of them. A round's value is the median of its calls; what is reported is
the median over rounds with its distribution-free interval. Ratios are taken within rounds.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from scipy import stats

MIN_ROUNDS: Final = 6
"""The fewest rounds whose least and largest value bound a median with 95 % confidence."""

MOST_CALLS: Final = 500


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to do it.

    Attributes:
        name: who it is.
        run: one call; what it returns is thrown away.
        reset: brings the inputs back before each call, outside the clock.
        note: what a reader must know of it, such as an inexact answer.
    """

    name: str
    run: Callable[[], object]
    reset: Callable[[], object] = _nothing
    note: str = ""


@dataclass(frozen=True)
class Interval:
    """A median and its bounds of at least 95 %; infinite where rounds are too few."""

    value: float
    low: float
    high: float

    @staticmethod
    def of_median(values: Sequence[float]) -> Interval:
        """Bound the median by order statistics: rank B(n, 1/2) below holds it.

        Source: David & Nagaraja, Order Statistics, 3rd ed., section 7.1.
        """
        ordered = sorted(values)
        n = len(ordered)
        below = int(stats.binom.ppf(0.025, n, 0.5))
        middle = statistics.median(ordered)
        if below < 1:
            return Interval(middle, -math.inf, math.inf)
        return Interval(middle, ordered[below - 1], ordered[n - below])


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one contender took, a value for each round.

    Units: seconds a call; `processor_s` counts every thread of the process.
    """

    wall_s: tuple[float, ...]
    processor_s: tuple[float, ...]
    n_calls: int
    n_threads: int = 1

    @property
    def n_rounds(self) -> int:
        """How many rounds were timed."""
        return len(self.wall_s)

    @property
    def cost_s(self) -> tuple[float, ...]:
        """What is compared: processor time of one thread, wall time of several.

        On a quiet machine one thread's two times are the same; on a busy one the wall time of long
        calls grows more than that of short ones, and their ratio would be flattered.
        """
        return self.processor_s if self.n_threads == 1 else self.wall_s

    @property
    def cost(self) -> Interval:
        """Median over the rounds."""
        return Interval.of_median(self.cost_s)

    def ratio_to(self, other: Timing) -> Interval:
        """How many times more `other` costs, paired within rounds."""
        pairs = zip(other.cost_s, self.cost_s, strict=True)
        return Interval.of_median([theirs / ours for theirs, ours in pairs])


def time_alternating(
    contenders: Sequence[Contender], *, n_rounds: int, slice_s: float, n_threads: int = 1
) -> dict[str, Timing]:
    """Time every contender in `n_rounds` rounds, each for about `slice_s` or for one call.

    `n_threads` is what the contenders may use: the caller has seen to it.
    """
    with _without_collections():
        n_calls = [_calls_in(each, slice_s) for each in contenders]
        idle_s = _clock_cost_s()
        wall: list[list[float]] = [[] for _ in contenders]
        processor: list[list[float]] = [[] for _ in contenders]
        for turn in range(n_rounds):
            places = range(len(contenders))
            for place in places if turn % 2 == 0 else reversed(places):
                lapse = _time_calls(contenders[place], n_calls[place])
                wall[place].append(lapse[0])
                processor[place].append(max(1e-9, lapse[1] - idle_s))
    return {
        each.name: Timing(
            wall_s=tuple(spent), processor_s=tuple(burnt), n_calls=count, n_threads=n_threads
        )
        for each, spent, burnt, count in zip(contenders, wall, processor, n_calls, strict=True)
    }


@contextmanager
def _without_collections() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _calls_in(contender: Contender, slice_s: float) -> int:
    """How many calls fill the slice; the calls made here are the warm-up.

    Judged by the least processor time of three: who is interrupted in his first call would be
    timed by one cold call a round.
    """
    least_s = slice_s
    for _ in range(3):
        _, processor_s = _time_calls(contender, 1)
        if processor_s > slice_s:
            return 1
        least_s = min(least_s, processor_s)
    return max(1, min(MOST_CALLS, int(slice_s / max(least_s, 1e-6))))


def _time_calls(contender: Contender, n_calls: int) -> tuple[float, float]:
    """Median wall time and median processor time of a call, in seconds."""
    wall: list[int] = []
    processor: list[int] = []
    for _ in range(n_calls):
        contender.reset()
        burnt = time.process_time_ns()
        begin = time.perf_counter_ns()
        contender.run()
        wall.append(time.perf_counter_ns() - begin)
        processor.append(time.process_time_ns() - burnt)
    return statistics.median(wall) / 1e9, statistics.median(processor) / 1e9


def _clock_cost_s() -> float:
    """Processor time that reading the clocks adds to a call."""
    return _time_calls(Contender(name="nothing", run=_nothing), 1000)[1]
