"""A board's queries as Prometheus takes them: variables filled in, and what each of them gave.

What Grafana does in the browser, for who has none: everything is chosen, or the value that the
board starts with, and intervals are those of the range shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

Json = dict[str, Any]
STEPS: Final = 240
"""Points of a range query: what a panel has pixels for."""


class Series(Protocol):
    """One series of an answer."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Label values by name."""

    @property
    def times(self) -> Sequence[float]:
        """Unix times in seconds."""

    @property
    def values(self) -> Sequence[float]:
        """One a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One query of a panel, ready to be asked.

    Attributes:
        panel: the panel's number on its board.
        title: its title.
        legend: how its series are named, with `{{label}}` in it.
        is_instant: whether one time is asked instead of a range.
    """

    panel: int
    title: str
    ref: str
    promql: str
    legend: str
    is_instant: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The time shown.

    Units:
        Seconds; the ends are Unix times.
    """

    start: float
    end: float
    scrape_s: float = 1.0

    @property
    def step_s(self) -> float:
        """Between two points."""
        return max(self.scrape_s, round((self.end - self.start) / STEPS))

    @property
    def times(self) -> list[float]:
        """Every step of it."""
        return [
            self.start + n * self.step_s
            for n in range(int((self.end - self.start) / self.step_s) + 1)
        ]

    @property
    def intervals(self) -> dict[str, str]:
        """Grafana's own variables; a rate needs four scrapes to be sure of two samples."""
        rate = max(4 * self.scrape_s, self.step_s + self.scrape_s)
        return {
            "__rate_interval": _duration(rate),
            "__interval": _duration(self.step_s),
            "__range": _duration(self.end - self.start),
        }


Ask = Callable[[Query], Sequence[Series]]
Answers = dict[tuple[int, str], Sequence[Series]]
"""Series by panel number and query letter."""


def queries_of(board: Json, window: Window) -> Iterator[Query]:
    """Every query of every panel, in the order of the board."""
    values = {**_choices(board), **window.intervals}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield Query(
                panel=panel["id"],
                title=panel["title"],
                ref=target["refId"],
                promql=fill(target["expr"], values),
                legend=target["legendFormat"],
                is_instant=target["instant"],
            )


def answers_of(board: Json, window: Window, ask: Ask) -> Answers:
    """Ask everything."""
    return {(each.panel, each.ref): ask(each) for each in queries_of(board, window)}


def fill(promql: str, values: Mapping[str, str]) -> str:
    """Put values where `$name` stands; a name without one stays."""
    return re.sub(r"\$(\w+)", lambda found: values.get(found.group(1), found.group()), promql)


def name_of(legend: str, labels: Mapping[str, str]) -> str:
    """A series' name; labels that it has not are empty."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found.group(1), ""), legend).strip()


def _choices(board: Json) -> dict[str, str]:
    return {
        each["name"]: each.get("allValue") or str(each["current"]["value"])
        for each in board["templating"]["list"]
    }


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
