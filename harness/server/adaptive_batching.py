"""Adaptive batching: how much prompt one step reads, from what steps have been measured to cost.

`StepCosts` learns seconds = fixed + per_prefill * n_prefill + per_decode * n_decode while the
engine runs; `allow_prefill` turns that into the next step's share of prefill. Pure arithmetic: time
comes in as an argument. Who gets the share is the scheduler's business.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

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
        self._costs = np.array(measured or FIRST_COSTS)
        self._variance = np.eye(len(self._costs)) * _MOST_VARIANCE
        self._has_seen_any = measured is not None

    def observe(self, n_prefill: float, n_decode: float, seconds: float) -> None:
        """Take one step's measured time, or the mean of several steps."""
        parts = np.array((1.0, n_prefill, n_decode)) * self._costs
        predicted = float(parts.sum())
        if not self._has_seen_any:
            self._has_seen_any = True
            self._costs *= max(seconds, _LEAST_S) / predicted
            return
        shares = parts / predicted
        ratio = min(max(seconds / predicted, 1 / _MOST_SURPRISE), _MOST_SURPRISE)
        spread = self._variance @ shares
        gain = spread / (_FADE + shares @ spread)
        self._costs = np.maximum(self._costs * np.exp(gain * math.log(ratio)), _LEAST_S)
        self._variance = _faded(self._variance, gain, shares)

    def estimate(self) -> Costs:
        """Give the costs as they are known now; each is positive."""
        return Costs(*self._costs.tolist())


def _faded(variance: NDArray[np.float64], gain: Vector, shares: Vector) -> NDArray[np.float64]:
    """The variance after a step, no larger than it may be.

    Joseph's form, (1 - g x') V (1 - g x')' + fade * g g', and an even mean with its transpose: the
    shorter V - g x' V loses symmetry by rounding, which forgetting doubles every 34 steps until a
    variance is negative.
    Source: Bucy and Joseph, Filtering for stochastic processes, 1968.
    """
    rest = np.eye(len(gain)) - np.outer(gain, shares)
    grown = (rest @ variance @ rest.T) / _FADE + np.outer(gain, gain)
    even = (grown + grown.T) / 2
    shrink = np.sqrt(np.minimum(1.0, _MOST_VARIANCE / np.maximum(np.diag(even), _LEAST_S)))
    return np.asarray(even * np.outer(shrink, shrink))


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
