"""Runs cases and turns timings into rows: median, ratios, share of the memory's floor, target.

A miss gets its reason here; what counts as one is `kernels.bench.verdict`'s.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kernels.bench import bandwidth
from kernels.bench.case import NAIVE, SMART, TORCH, VLLM
from kernels.bench.timing import Interval, Timing, time_alternating
from kernels.bench.verdict import judge

if TYPE_CHECKING:
    from kernels.bench.case import Case
    from kernels.bench.verdict import Verdict

PEERS: Final = (TORCH, SMART, VLLM, NAIVE)
IDLE: Final = 0.8
"""Share of its threads' time below which a call is held to have waited."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is timed."""

    n_rounds: int
    slice_s: float


FULL: Final = Effort(n_rounds=9, slice_s=0.04)
QUICK: Final = Effort(n_rounds=6, slice_s=0.002)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender of one case.

    Attributes:
        ratios: how many times longer each peer takes.
        cost_s: processor time of one thread, wall time of several: see `Timing.cost_s`.
        floor_share: the time in which memory could move `n_bytes`, over the cost.
        rate: units of work (`item`) a second.
        verdicts: each thing it should reach; none where nothing was set.
        reason: what the measurement says of a miss; empty where all was reached.
    """

    op: str
    shape: str
    n_threads: int
    contender: str
    note: str
    cost_s: Interval
    wall_s: float
    processor_s: float
    n_rounds: int
    n_calls: int
    ratios: dict[str, Interval]
    n_bytes: int
    floor_s: float
    floor_share: float
    rate: float | None
    item: str
    verdicts: tuple[Verdict, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As plain values; seconds, bytes."""
        return asdict(self)


def run_cases(
    cases: Iterable[Case], effort: Effort, say: Callable[[Case], None] = lambda _: None
) -> Iterator[Row]:
    """Time every case; `say` is told of each before it runs."""
    for case in cases:
        say(case)
        yield from run_case(case, effort)


def run_case(case: Case, effort: Effort) -> list[Row]:
    """Time one case and judge every contender."""
    floor_s = bandwidth.floor_s(case.n_bytes, case.n_threads)
    contenders = case.contenders()
    with bandwidth.threads(case.n_threads):
        timings = time_alternating(
            contenders, n_rounds=effort.n_rounds, slice_s=effort.slice_s, n_threads=case.n_threads
        )
    return [_row(case, each.name, each.note, timings, floor_s) for each in contenders]


def _row(case: Case, name: str, note: str, timings: dict[str, Timing], floor_s: float) -> Row:
    timing = timings[name]
    target = case.target if case.target is not None and case.target.subject == name else None
    told = {*PEERS, *(target.peers if target else ())}
    ratios = {
        peer: timing.ratio_to(theirs)
        for peer, theirs in timings.items()
        if peer != name and peer in told
    }
    verdicts = tuple(judge(target, timing, ratios, case.n_items)) if target else ()
    return Row(
        op=case.op,
        shape=case.shape,
        n_threads=case.n_threads,
        contender=name,
        note=note,
        cost_s=timing.cost,
        wall_s=statistics.median(timing.wall_s),
        processor_s=statistics.median(timing.processor_s),
        n_rounds=timing.n_rounds,
        n_calls=timing.n_calls,
        ratios=ratios,
        n_bytes=case.n_bytes,
        floor_s=floor_s,
        floor_share=floor_s / timing.cost.value,
        rate=case.n_items / timing.cost.value if case.n_items else None,
        item=case.item,
        verdicts=verdicts,
        reason="" if all(each.is_met for each in verdicts) else _reason(case, timing, floor_s),
    )


def _reason(case: Case, timing: Timing, floor_s: float) -> str:
    """What the measurement itself says of a miss."""
    share = floor_s / timing.cost.value
    wall_s = statistics.median(timing.wall_s)
    used = statistics.median(timing.processor_s) / (wall_s * case.n_threads)
    if case.n_threads > 1 and used < IDLE:
        return f"its {case.n_threads} threads ran for {used:.0%} of their time"
    if share > 0.5:
        return f"bound by memory ({share:.0%} of the measured floor)"
    return f"bound by arithmetic and call cost ({share:.0%} of the measured memory floor)"
