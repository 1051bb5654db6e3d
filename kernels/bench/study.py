"""Runs cases and turns timings into rows: median, ratios, share of the memory's floor, target.

Here is where a row is judged against its target, and where a miss gets its reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kernels.bench import bandwidth
from kernels.bench.case import NAIVE, SMART, TORCH, VLLM
from kernels.bench.timing import Interval, Timing, time_alternating

if TYPE_CHECKING:
    from kernels.bench.case import Case, Target

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
        target: what it should reach, in words; empty where nothing was set.
        missed: what it missed and why; empty where it was reached.
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
    target: str
    missed: str

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
    ratios = {
        peer: timing.ratio_to(theirs)
        for peer, theirs in timings.items()
        if peer != name and (peer in PEERS or _aims_at(case, name, peer))
    }
    target = case.target if case.target is not None and case.target.subject == name else None
    missed = _missed(target, timing, ratios, case) if target else ""
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
        target=_words(target, case) if target else "",
        missed=f"{missed}: {_reason(case, timing, floor_s)}" if missed else "",
    )


def _aims_at(case: Case, name: str, peer: str) -> bool:
    return (
        case.target is not None and case.target.subject == name and peer in case.target.least_ratios
    )


def _words(target: Target, case: Case) -> str:
    parts = [f">= {ratio:g}x {peer}" for peer, ratio in target.least_ratios.items()]
    if target.most_s is not None:
        parts.insert(0, f"<= {target.most_s * 1e3:g} ms")
    if target.least_rate is not None:
        parts.append(f">= {target.least_rate / 1e9:g} G{case.item}/s")
    return ", ".join(parts)


def _missed(target: Target, timing: Timing, ratios: dict[str, Interval], case: Case) -> str:
    """Say which parts of the target were missed, and by how much; empty where none."""
    cost_s = timing.cost.value
    parts = [
        f"{ratios[peer].value:.3g}x {peer}, aimed at {least:g}x"
        for peer, least in target.least_ratios.items()
        if ratios[peer].value < least
    ]
    if target.most_s is not None and cost_s > target.most_s:
        parts.insert(0, f"{cost_s * 1e3:.3g} ms, aimed at {target.most_s * 1e3:g}")
    if target.least_rate is not None and case.n_items and case.n_items / cost_s < target.least_rate:
        rate = case.n_items / cost_s / 1e9
        parts.append(f"{rate:.2g} G{case.item}/s, aimed at {target.least_rate / 1e9:g}")
    return "; ".join(parts)


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
