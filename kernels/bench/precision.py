"""How far penalties drift that are summed up in a short float, step after step.

A penalty added to a running sum is rounded at every step: errors pile up, and once it is less than
half the spacing of numbers around the sum, the sum stands still for good. Counting instead, and
multiplying once, rounds once: that is what `kernels.penalties` does. True values are exact
fractions of the decimal penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, repeat
from typing import Any, Final, Literal

import torch

How = Literal["summed", "counted"]
TYPES: Final = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PENALTIES: Final = ("0.001", "0.01", "0.1", "0.5")
N_STEPS: Final = 4000
EARLY: Final = 1000
"""The step after which errors have been published."""
THRESHOLD: Final = Fraction(1, 100)
"""The drift of a logit that is told: 0.01 moves a probability by one per cent."""
PUBLISHED: Final = {"fp32": "2e-6", "fp16": "0.0187 (842)", "bf16": "0.0431 (317)"}
"""Error after 1,000 steps of 0.001 and, bracketed, the step of a drift, as others printed them."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A penalty's total in one type, followed over the steps.

    Attributes:
        how: Summed up step by step, or counted and multiplied once.
        errors: The total after each step, less the true one.
        drift_step: First step whose error is larger than `THRESHOLD`; None if there is none.
        stall_step: First step that no longer changes the sum, as none after it does; None if the
            sum still moves.
    """

    penalty: str
    type: str
    how: How
    values: tuple[float, ...]
    errors: tuple[float, ...]
    drift_step: int | None
    stall_step: int | None

    def to_json(self) -> dict[str, Any]:
        """As plain values, the errors of every hundredth step."""
        return {
            "penalty": float(self.penalty),
            "type": self.type,
            "how": self.how,
            "drift_step": self.drift_step,
            "stall_step": self.stall_step,
            "errors": {step: self.errors[step - 1] for step in range(100, N_STEPS + 1, 100)},
        }

    def cells(self) -> tuple[str, ...]:
        """As a row of a table, in the order of `HEAD`."""
        is_published = self.how == "summed" and self.penalty == PENALTIES[0]
        return (
            self.penalty,
            self.how,
            self.type,
            f"{self.values[EARLY - 1]:.6g}",
            f"{self.errors[EARLY - 1]:+.3g}",
            f"{max(map(abs, self.errors)):.3g}",
            str(self.drift_step or "-"),
            str(self.stall_step or "-"),
            PUBLISHED[self.type] if is_published else "",
        )


HEAD: Final = (
    "penalty",
    "how",
    "type",
    f"total at {EARLY}",
    "its error",
    f"largest to {N_STEPS}",
    f"drift > {float(THRESHOLD)}",
    "stands still",
    "published error",
)
LEGEND: Final = f"""\
Totals and errors in nats, against exact fractions. drift: first step whose
error is above {float(THRESHOLD)}, which moves a probability by 1 %; stands still: first step from
which the sum no longer changes; -: not in {N_STEPS} steps. Published: the error after
{EARLY} steps and, in brackets, the step of a drift."""


def study() -> list[Drift]:
    """Follow every penalty in every type, summed up and counted."""
    hows: tuple[How, ...] = ("summed", "counted")
    return [_drift(penalty, name, how) for penalty in PENALTIES for how in hows for name in TYPES]


def _drift(penalty: str, name: str, how: How) -> Drift:
    values = _follow(how, penalty, TYPES[name])
    exact = Fraction(penalty)
    errors = [Fraction(value) - exact * step for step, value in enumerate(values, 1)]
    drifts = (step for step, error in enumerate(errors, 1) if abs(error) > THRESHOLD)
    stalls = (step for step in range(2, N_STEPS + 1) if values[step - 1] == values[step - 2])
    return Drift(
        penalty=penalty,
        type=name,
        how=how,
        values=tuple(values),
        errors=tuple(map(float, errors)),
        drift_step=next(drifts, None),
        stall_step=next(stalls, None) if how == "summed" else None,
    )


def _follow(how: How, penalty: str, dtype: torch.dtype) -> list[float]:
    """Give the total after each step, rounded to its type as a kernel would round it."""
    if how == "counted":  # the count is exact, the penalty what float32 makes of it
        exact = torch.arange(1, N_STEPS + 1) * torch.tensor(float(penalty)).double()
        return exact.to(dtype).tolist()
    added = torch.tensor(float(penalty), dtype=dtype)
    totals = accumulate(repeat(added, N_STEPS))
    return [total.item() for total in totals]
