"""When a pool would be done with a request: arithmetic on what its steps were measured to cost.

A request's time is (steps it is there for) x fixed + (prompt tokens read meanwhile) x per token +
(tokens drawn meanwhile) x per token. `PoolCosts` learns the three costs from every request that
ends, `predict_s` counts what lies ahead of a new one. Pure: no clock, no process, no pool.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from harness.server.adaptive_batching import StepCosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.server.adaptive_batching import Costs


class Left(NamedTuple):
    """What a sequence still has before it: prompt tokens to read, output tokens to write."""

    n_prompt: int
    n_output: int


class Work(NamedTuple):
    """What a pool has done so far, or between two moments."""

    n_steps: int = 0
    n_prefill: int = 0
    n_decode: int = 0


class PoolCosts:
    """What one pool's steps cost, learnt from the requests that end there.

    Attributes:
        done: All work up to now; a request's share is the difference between its end and its start.
    """

    def __init__(self, measured: Costs) -> None:
        self._costs = StepCosts(measured)
        self.done = Work()

    def note_step(self, n_prefill: int, n_decode: int) -> None:
        """Count a step: prompt tokens of the sequences that it completed, tokens it drew."""
        steps, prefill, decode = self.done
        self.done = Work(steps + 1, prefill + n_prefill, decode + n_decode)

    def learn(self, begun: Work, seconds: float) -> None:
        """Take the time of a request that has just ended; `begun` was `done` when it came."""
        n_steps = self.done.n_steps - begun.n_steps
        if n_steps:
            self._costs.observe(
                (self.done.n_prefill - begun.n_prefill) / n_steps,
                (self.done.n_decode - begun.n_decode) / n_steps,
                seconds / n_steps,
            )

    def predict_s(self, ahead: Sequence[Left], asked: Sequence[Left], n_slots: int) -> float:
        """Predict the seconds until the last of the `asked` sequences is complete."""
        return predict_s(self._costs.estimate(), ahead, asked, n_slots)


def predict_s(costs: Costs, ahead: Sequence[Left], asked: Sequence[Left], n_slots: int) -> float:
    """Predict when the last of `asked` is complete, behind what is `ahead`.

    All prompts are read before it: those of the sequences it waits for, and those of the others,
    whose reading its own steps share. A step draws a token for everybody who has a slot.
    """
    n_prefill = sum(left.n_prompt for left in (*ahead, *asked))
    n_steps = steps_until_done(_outputs(ahead), _outputs(asked), n_slots)
    n_beside = min(n_slots, len(ahead) + len(asked))
    return n_prefill * costs.prefill_token_s + n_steps * (costs.fixed_s + n_beside * costs.decode_s)


def steps_until_done(ahead: Sequence[int], asked: Sequence[int], n_slots: int) -> int:
    """Count the steps until the last of `asked` has its tokens, one for each slot and step.

    First come, first served: each sequence takes the slot that is free first.
    """
    free_at = [0] * n_slots
    for n_tokens in ahead:
        heapq.heapreplace(free_at, free_at[0] + n_tokens)
    ends = [0]
    for n_tokens in asked:
        ends.append(free_at[0] + n_tokens)
        heapq.heapreplace(free_at, ends[-1])
    return max(ends)


def _outputs(sequences: Sequence[Left]) -> list[int]:
    return [left.n_output for left in sequences]
