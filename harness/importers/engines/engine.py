"""What is known of one kind of server: how to tell it, and what its names mean.

A table and nothing else; `canonical` applies it. Names stand here with `_` for `:` and without
`_total`: servers and collectors write either.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.metrics.catalogue.metric import Metric

RANKS: Final = ("pid", "rank", "tp_rank", "pp_rank")
"""Labels of processes that serve one batch together: each tells the same gauge, or zero."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """A quantity by the names one kind of server has given it.

    Attributes:
        metric: the quantity.
        names: the newest first; only the first that is there is used.
        only: labels that a series must have.
        over: name and labels of what it is to be divided by.
        outcome: label that holds the outcome.
        fixed_outcome: outcome that the name itself says.
        part: the part of a histogram that a plain counter is, `_sum` or `_count`.
        of_part: the part of the server's histogram that is meant.
        factor: the server's unit in ours.
        note: version or caution, for people.
    """

    metric: Metric
    names: tuple[str, ...]
    only: Mapping[str, str] = field(default_factory=dict)
    over: tuple[str, Mapping[str, str]] | None = None
    outcome: str = ""
    fixed_outcome: str = ""
    part: str = ""
    of_part: str = ""
    factor: float = 1.0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One kind of server.

    Attributes:
        name: short, in lower case.
        title: as people write it.
        prefixes: how its metrics' names begin.
        aliases: its quantities.
        required: quantities that every version has; one that is missing is worth a word.
        repeats: labels whose series tell the same once more: the largest counts and not the sum.
        kinds: true types of metrics that are declared as something else.
        notes: what its numbers cannot say.
    """

    name: str
    title: str
    prefixes: tuple[str, ...]
    aliases: tuple[Alias, ...]
    required: tuple[Metric, ...] = ()
    repeats: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
