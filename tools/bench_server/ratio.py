"""Ratios within a block, and the interval of their median over blocks.

What is compared takes turns: a block times every contender once, the next block in the opposite
order. A neighbour on the same machine who slows a block slows both sides of its ratio.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from harness.stats.quantile_ci import quantile_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


NameT = TypeVar("NameT")


class Ratio(NamedTuple):
    """Median over blocks with its 95 % interval (order statistics; infinite below 6 blocks)."""

    value: float
    low: float
    high: float
    n_blocks: int

    def __str__(self) -> str:
        """Render for a table."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def time_in_turns(
    contenders: Mapping[NameT, Callable[[], float]], n_blocks: int
) -> dict[NameT, list[float]]:
    """Run every contender once a block, after a block that warms up."""
    times: dict[NameT, list[float]] = {name: [] for name in contenders}
    for block in range(-1, n_blocks):
        order = list(contenders)
        for name in reversed(order) if block % 2 else order:
            time = contenders[name]()
            if block >= 0:
                times[name].append(time)
    return times


def ratio(candidate: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Candidate over reference, block by block; below 1 is faster."""
    ratios = [after / before for after, before in zip(candidate, reference, strict=True)]
    interval = quantile_interval(ratios, 0.5)
    return Ratio(statistics.median(ratios), interval.low, interval.high, len(ratios))
