"""Runs all work through the engine in one mode, and keeps what every position was drawn by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from harness.server.fidelity.listener import Heard, Listener
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import Mode, Sequence

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.engine import Engine
    from harness.server.fidelity.settings import SamplingSetting
    from harness.server.fidelity.work import Work


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One pass over all work.

    Attributes:
        answers: Tokens of each work as its context went on, prescribed or chosen.
        heard: What was heard, by work and position.
    """

    answers: tuple[tuple[int, ...], ...]
    heard: tuple[tuple[Heard, ...], ...]
    n_cached: int
    n_evictions: int

    @cached_property
    def positions(self) -> tuple[Heard, ...]:
        """Every position, all works one after the other."""
        return tuple(heard for answer in self.heard for heard in answer)

    @cached_property
    def weights(self) -> Tensor:
        """What each position is drawn by.

        Shapes: (n_positions, vocab_size).
        """
        return torch.stack([each.weights for each in self.positions])

    @cached_property
    def unfiltered(self) -> Tensor:
        """The same before the filters."""
        return torch.stack([each.unfiltered for each in self.positions])

    @cached_property
    def choices(self) -> Tensor:
        """The token that the sampler chose at each position.

        Shapes: (n_positions,) int64.
        """
        return torch.tensor([each.token_id for each in self.positions])

    def place(self, position: int) -> str:
        """Name a position for people."""
        for number, answer in enumerate(self.heard):
            if position < len(answer):
                return f"token {position + 1} after prompt {number + 1}"
            position -= len(answer)
        raise IndexError(position)


def run_work(
    engine: Engine,
    mode: Mode,
    setting: SamplingSetting,
    works: AbstractSequence[Work],
    *,
    seed: int,
    prescribed: AbstractSequence[AbstractSequence[int]] | None = None,
) -> Trace:
    """Answer all work in this mode, along the prescribed tokens where there are any."""
    sampler, before = engine.sampler, engine.scheduler.n_evictions
    listener = Listener(
        sampler,
        None if prescribed is None else dict(enumerate(prescribed)),
        has_filters=setting.has_filters,
    )
    sequences = [
        sequence_for(work, number, mode, setting, seed) for number, work in enumerate(works)
    ]
    engine.sampler = listener
    try:
        _run_dry(engine, sequences)
    finally:
        engine.sampler = sampler
    heard = tuple(tuple(listener.heard[number]) for number in range(len(works)))
    own = [[each.token_id for each in answer] for answer in heard]
    return Trace(
        answers=tuple(map(tuple, own if prescribed is None else prescribed)),
        heard=heard,
        n_cached=sum(sequence.n_cached for sequence in sequences),
        n_evictions=engine.scheduler.n_evictions - before,
    )


def sequence_for(
    work: Work, number: int, mode: Mode, setting: SamplingSetting, seed: int
) -> Sequence:
    """A request for this work, as the front would hand it in."""
    return Sequence(
        id=number,
        order=number,
        mode=mode,
        tokens=list(work.tokens),
        segments=work.segments,
        params=setting.seeded(seed, number),
        charged_until_ns=0,
    )


def _run_dry(engine: Engine, sequences: AbstractSequence[Sequence]) -> None:
    watch = Stopwatch(GcPauses())
    for each in sequences:
        each.charged_until_ns = watch.last_ns
        engine.add(each)
    while engine.has_work:
        watch.restart(engine.step(watch).until_ns)
