"""Adaptive batching: how much prompt one step reads, from what steps have been measured to cost.

`StepCosts` learns seconds = fixed + per_prefill * n_prefill + per_decode * n_decode while the
engine runs; `allow_prefill` turns that into the next step's share of prefill. Pure arithmetic: time
comes in as an argument. Who gets the share is the scheduler's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Final, NamedTuple

Vector = Sequence[float]
Square = list[list[float]]
"""Three by three in plain Python: numpy would spend a step's time on being called."""

TARGET_STEP_S: Final = 0.1
"""What a step may take while answers are written: ten tokens a second are more than people read."""
LEAST_PREFILL_SHARE: Final = 0.75
"""Prefill gets this share of a step's time whatever the target says, or throughput would suffer."""
_FADE: Final = 0.98
"""How much the past counts against each new step: a memory of some fifty steps."""
_MOST_SURPRISE: Final = 3.0
"""A step counts as at most so many times its prediction: machines hold steps up now and then."""
_MOST_VARIANCE: Final = 1.0
"""Of the logarithm of a cost that has never been measured: it may well be off by a factor of e."""
_LEAST_S: Final = 1e-9


class Costs(NamedTuple):
    """Seconds of a step: fixed, per token of prefill, per decoding sequence."""

    fixed_s: float
    prefill_token_s: float
    decode_s: float


FIRST_COSTS: Final = Costs(fixed_s=0.002, prefill_token_s=0.0001, decode_s=0.0003)
"""What is believed before anything is measured."""


class StepCosts:
    """Recursive least squares with forgetting, on the logarithms of costs and of step times.

    Logarithms keep every cost positive and make a step that took twice as long as predicted tell as
    much on a slow machine as on a fast one. With costs c, a step's counts x and prediction
    p = sum(x_i * c_i), the slope of log p by log c_i is the share x_i * c_i / p. What the present
    traffic does not tell apart keeps its last estimate.
    Source: Ljung, System identification, 1999, section 11.2.

    Args:
        measured: Costs that were measured elsewhere; without, the first step sets the scale of all.
    """

    def __init__(self, measured: Costs | None = None) -> None:
        self._costs = measured or FIRST_COSTS
        self._variance = [[_MOST_VARIANCE * (i == j) for j in range(3)] for i in range(3)]
        self._has_seen_any = measured is not None

    def observe(self, n_prefill: float, n_decode: float, seconds: float) -> None:
        """Take one step's measured time, or the mean of several steps."""
        parts = list(map(mul, (1, n_prefill, n_decode), self._costs))
        predicted = sum(parts)
        if not self._has_seen_any:
            self._has_seen_any = True
            scale = max(seconds, _LEAST_S) / predicted
            self._costs = Costs(*(cost * scale for cost in self._costs))
            return
        shares = [part / predicted for part in parts]
        ratio = min(max(seconds / predicted, 1 / _MOST_SURPRISE), _MOST_SURPRISE)
        spread = [_dot(row, shares) for row in self._variance]
        surprise = _FADE + _dot(shares, spread)
        gain = [each / surprise for each in spread]
        self._costs = Costs(
            *(max(cost * ratio**g, _LEAST_S) for cost, g in zip(self._costs, gain, strict=True))
        )
        self._variance = _faded(self._variance, gain, surprise)

    def estimate(self) -> Costs:
        """Give the costs as they are known now; each is positive."""
        return self._costs


def _dot(left: Vector, right: Vector) -> float:
    return math.fsum(map(mul, left, right))


def _faded(variance: Square, gain: Vector, surprise: float) -> Square:
    """The variance after a step, no larger than it may be: (V - surprise * g g') / fade.

    Written so, with a product of two gains, entry and mirrored entry are the same number: what
    loses its symmetry by rounding has it doubled by forgetting every 34 steps, until a variance is
    negative.
    """
    whole = [
        [(entry - surprise * (g * h)) / _FADE for entry, h in zip(row, gain, strict=True)]
        for row, g in zip(variance, gain, strict=True)
    ]
    shrink = [
        math.sqrt(min(1.0, _MOST_VARIANCE / max(row[i], _LEAST_S))) for i, row in enumerate(whole)
    ]
    return [
        [entry * (left * right) for entry, right in zip(row, shrink, strict=True)]
        for row, left in zip(whole, shrink, strict=True)
    ]


class Allowance(NamedTuple):
    """How much prefill one step takes.

    Attributes:
        enough: From so many tokens on, no further prompt is taken into the step.
        most: No more tokens than these.
    """

    enough: int
    most: int


def allow_prefill(costs: Costs, *, n_decode: int, budget: int) -> Allowance:
    """Choose the prefill of a step with `n_decode` decoding sequences.

    A step is long enough to give prefill `LEAST_PREFILL_SHARE` of its time; beyond that a further
    prompt would only delay those before it. While answers are written it ends by `TARGET_STEP_S`,
    or where that is too short for the share, at the share.
    """
    rest_s = costs.fixed_s + n_decode * costs.decode_s
    fair_s = rest_s * LEAST_PREFILL_SHARE / (1 - LEAST_PREFILL_SHARE)
    enough = min(budget, math.ceil(fair_s / costs.prefill_token_s))
    if n_decode == 0:
        return Allowance(enough, budget)
    in_time = int((TARGET_STEP_S - rest_s) / costs.prefill_token_s)
    return Allowance(enough, min(budget, max(enough, in_time)))
