"""One thing to time: an op on one shape, everybody who does it, and what is aimed at.

The cases themselves are in `kernels.bench.cases`, a file for each op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kernels.backend import Backend, has_native

if TYPE_CHECKING:
    from kernels.bench.timing import Contender

BACKENDS: Final[tuple[Backend, ...]] = ("torch", "cpu") if has_native() else ("torch",)
"""Ours that run here: eager torch, and the native one where it is built."""
TORCH: Final = "torch"
NATIVE: Final = "cpu"
VLLM: Final = "vllm eager"
SMART: Final = "smart eager"
NAIVE: Final = "naive loop"
"""What is written first: one element, row or pair after the other."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the row of `subject` should reach.

    Attributes:
        most_s: the longest median, in seconds, on a quiet machine.
        least_ratios: how many times longer each of these peers must take.
        most_added: by what share it may cost more than each of these.
        least_rate: units of work a second.
    """

    subject: str = NATIVE
    most_s: float | None = None
    least_ratios: Mapping[str, float] = field(default_factory=dict)
    most_added: Mapping[str, float] = field(default_factory=dict)
    least_rate: float | None = None

    @property
    def peers(self) -> set[str]:
        """Whom it names."""
        return {*self.least_ratios, *self.most_added}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One op on one shape.

    Attributes:
        op: the op's module in `kernels`.
        shape: the sizes and settings, in words.
        n_bytes: the least that must be moved; what the bandwidth floor is taken of.
        contenders: built when the case is run: arrays are made then and dropped afterwards.
        n_threads: what each contender may use.
        n_items: units of work a call, where a rate is worth telling.
        item: what they are.
    """

    op: str
    shape: str
    n_bytes: int
    contenders: Callable[[], list[Contender]]
    n_threads: int = 1
    n_items: int | None = None
    item: str = "elements"
    target: Target | None = None
