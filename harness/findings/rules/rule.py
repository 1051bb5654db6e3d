"""The shape of a rule: a function from evidence to doubts, and the list of all rules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.findings.evidence import Evidence

Effect = Literal["caveat", "invalid-client", "failed", "partial"]


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What a rule found.

    Attributes:
        text: one sentence with numbers and, where it helps, what to do.
        cell: the cell it concerns; None for the whole run.
        effect: what becomes of the cell; a `caveat` leaves it as it is.
    """

    text: str
    cell: str | None = None
    effect: Effect = "caveat"


Rule = Callable[[Evidence], list[Doubt]]
