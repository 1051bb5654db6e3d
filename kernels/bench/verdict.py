"""Whether a timing reaches its target, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.bench.case import Target
    from kernels.bench.timing import Interval, Timing


@dataclass(frozen=True)
class Verdict:
    """One part of a target: what was asked, what came."""

    asked: str
    got: str
    is_met: bool

    def __str__(self) -> str:
        """As the table has it."""
        return f"met {self.asked}" if self.is_met else f"MISSED {self.asked} (got {self.got})"


def judge(
    target: Target, timing: Timing, ratios: Mapping[str, Interval], n_items: int | None
) -> Iterator[Verdict]:
    """Compare medians with every part of the target."""
    cost_s = timing.cost.value
    if target.most_s is not None:
        got = f"{cost_s * 1e3:.3g}"
        yield Verdict(f"<= {target.most_s * 1e3:g} ms", got, cost_s <= target.most_s)
    for peer, least in target.least_ratios.items():
        ratio = ratios[peer].value
        yield Verdict(f">= {least:g}x {peer}", f"{ratio:.3g}x", ratio >= least)
    for peer, most in target.most_added.items():
        added = 1 / ratios[peer].value - 1
        yield Verdict(f"<= {most:.0%} over {peer}", f"{added:.0%}", added <= most)
    if target.least_rate is not None and n_items is not None:
        rate = n_items / cost_s
        asked = f">= {target.least_rate / 1e9:g} G/s"
        yield Verdict(asked, f"{rate / 1e9:.2g}", rate >= target.least_rate)
