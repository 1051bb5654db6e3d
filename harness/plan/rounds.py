"""Further rounds of a plan: what the findings wish for, appended to what was planned before.

Pure: the same plan and wishes give the same longer plan. Segments that are planned stay as they
are, so that a run which was killed between two rounds goes on with either of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from harness.plan.build import build_segment, deal, round_order
from harness.plan.grid import build_cell
from harness.plan.plan import Cell, Factor, Plan
from harness.scenario.schema import Scenario

ONE_ROUND: Final = "[stop] and [refine] go in rounds: Locust sends the first, tailbreak run all"
Why = Literal["precision", "refine", "power", "confirm"]
LEAST_SEGMENT: Final = 50
"""Measured requests: shorter segments are mostly warm-up."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """More requests of one cell.

    Attributes:
        factors: of a cell that is planned already, or of a new one.
        n: measured requests, warm-up not counted.
        why: a narrower interval, a break's place, whether there is one, or whether it holds.
    """

    factors: Mapping[str, Factor]
    n: int
    why: Why


def extend_plan(plan: Plan, wishes: Sequence[Wish], scenario: Scenario) -> Plan:
    """The plan with another round, its cells in an order of its own.

    Each wish gets as many segments as a cell of the scenario at most. Lengths of answers are drawn
    by repeat and index as in the first round: common to the cells of a repeat.
    """
    cells = list(plan.cells)
    asked = [(_cell_of(cells, wish, scenario), wish.n) for wish in wishes]
    first = 1 + max((segment.repeat for segment in plan.segments), default=-1)
    dealt = [(cell, _deal(n, scenario)) for cell, n in asked]
    segments = [
        build_segment(dealt[number][0], first + i, dealt[number][1][i], scenario)
        for i in range(max((len(parts) for _, parts in dealt), default=0))
        for number in round_order(len(dealt), first + i, scenario.seed)
        if i < len(dealt[number][1])
    ]
    return replace(plan, cells=tuple(cells), segments=(*plan.segments, *segments))


def _cell_of(cells: list[Cell], wish: Wish, scenario: Scenario) -> Cell:
    """The cell with these factors, which is added where there is none."""
    for cell in cells:
        if cell.factors == wish.factors:
            return cell
    width = max(2, len(cells[0].id) - 1)
    cells.append(build_cell(f"c{len(cells):0{width}d}", dict(wish.factors), scenario))
    return cells[-1]


def _deal(n: int, scenario: Scenario) -> list[int]:
    return deal(n, max(1, min(scenario.load.segments_per_cell, n // LEAST_SEGMENT)))


def n_budget(scenario: Scenario) -> int:
    """Measured requests of all rounds together: what the grid would take without rounds."""
    return math.prod(map(len, scenario.axes.given().values())) * scenario.load.requests_per_cell
