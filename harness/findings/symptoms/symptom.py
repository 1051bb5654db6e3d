"""What a symptom is, and what a rule may look at to find one.

A rule is a pure function in a file of its own beside this one: symptom, cause, fix, with the
figures that it rests on. It answers None where it is healthy and where the figures are missing:
absent is never zero. Limits are arguments' defaults or constants of the rule's file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from harness.metrics.window import Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number that a symptom rests on.

    Attributes:
        what: in words, such as `pauses per minute`.
        value: in the window that is asked about.
        unit: base unit, empty for a plain count or a share.
        normal: the same in the normal window; None without one.
    """

    what: str
    value: float
    unit: str = ""
    normal: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Symptom:
    """Something wrong that was seen, why, and what to do.

    Attributes:
        name: the rule's, as its file is named.
        seen: what is seen, one sentence with its numbers.
        cause: what it most likely comes from.
        fix: what to do about it, the first thing to try first.
        strength: how many times the deciding figure is beyond its limit, at least 1.
        evidence: the figures, the deciding one first.
        window: unix times between which it was seen; None where no time is known (a profile).
    """

    name: str
    seen: str
    cause: str
    fix: str
    strength: float
    evidence: tuple[Figure, ...]
    window: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What rules look at; what is not there is None or empty. Names are those of the catalogue.

    Attributes:
        fault: telemetry of the time that is asked about: a fault's window, or a whole run.
        normal: telemetry of a healthy time to compare with.
        records: one row a request (`harness.records.frame`).
        profiles: events of imported profiles by file (`harness.records.profile.to_frame`).
        ranks: one row a rank and collective (`harness.findings.ranks.RankTable.meetings`).
    """

    fault: Window | None = None
    normal: Window | None = None
    records: pd.DataFrame | None = None
    profiles: dict[str, pd.DataFrame] = field(default_factory=dict)
    ranks: pd.DataFrame | None = None


Rule = Callable[[Context], Symptom | None]
