"""Rounds of the search: one break or lone cell at a time until the cells are explained."""

from dataclasses import dataclass

import numpy as np

from harness.stats.break_place import best_hinge, column_effects
from harness.stats.break_search import (
    Search,
    build_nulls,
    can_search,
    grid_of,
    left_over,
    search_break,
)
from harness.stats.candidates import Candidate, Shape
from harness.stats.smooth import Array

MAX_ROUNDS = 5


@dataclass(frozen=True)
class Rounds:
    """Outcome of all rounds: what was taken in turn, with p-values, and the last search.

    `names` are the families beaten in the last round with a winner, or fitted in the only one.
    `rivals` are, beside each lone cell, the best break that beat the smooth families as well.
    """

    taken: tuple[tuple[Candidate, Array], ...]
    p_values: tuple[float, ...]
    last: Search
    names: tuple[str, ...]
    rivals: tuple[Candidate | None, ...]

    @property
    def breaks(self) -> list[int]:
        """Positions in `taken` that are breaks, not lone cells."""
        return [i for i, (item, _) in enumerate(self.taken) if item.shape is not Shape.SPIKE]


@dataclass(frozen=True)
class Options:
    """What a search is asked for."""

    minimum: dict[Shape, float]
    n_bootstrap: int
    confidence: float


def explain(
    y: Array, z: Array, se: Array, options: Options, rng: np.random.Generator
) -> tuple[Rounds, float]:
    """Rounds that explain the data, and the factor by which errors had to be widened for it.

    Several jumps hide each other at first, and what is left of them looks like single cells. So
    where the rounds do not explain the data, they are tried once more with breaks before lone
    cells; that counts only where it ends in two or more jumps the same way, nothing else, that
    explain all.

    A kink lies anywhere, not only at a cell or in the middle of a gap. Where errors are small
    enough to tell, one kink looks like two, or like none that fits. So kinks are also moved to
    where they fit best; that counts where it explains all, with fewer breaks than without or where
    nothing else did.
    """
    rounds = _search_rounds(y, z, se, options, rng)
    scale = left_over(y, rounds.last)
    if _has_kink(rounds) and (scale > 1 or len(rounds.taken) > 1):
        moved = _search_rounds(y, z, se, options, rng, moves_kinks=True)
        is_better = scale > 1 or len(moved.taken) < len(rounds.taken)
        if is_better and _has_kink(moved) and left_over(y, moved.last) == 1:
            return moved, 1.0
    if scale == 1:
        return rounds, 1.0
    if any(item.shape is Shape.SPIKE for item, _ in rounds.taken):
        steps = _search_rounds(y, z, se, options, rng, breaks_first=True)
        if _is_climb(y, z, se, steps) and left_over(y, steps.last) == 1:
            return steps, 1.0
    return _search_rounds(y, z, se * scale, options, rng), scale


def _has_kink(rounds: Rounds) -> bool:
    return any(item.shape is Shape.KINK for item, _ in rounds.taken)


def _is_climb(y: Array, z: Array, se: Array, rounds: Rounds) -> bool:
    """Whether two or more jumps, all the way the cells themselves go, were taken alone."""
    if len(rounds.taken) < 2 or any(item.shape is not Shape.JUMP for item, _ in rounds.taken):
        return False
    signs = set()
    for pair in rounds.taken:
        nulls = build_nulls(grid_of(z, se, [other for other in rounds.taken if other is not pair]))
        kept = [null for null in nulls if null.name in rounds.names]
        size = float(np.median(column_effects(y, kept, pair[1])[0]))
        if size * float(y[pair[0].below + 1] - y[pair[0].below]) <= 0:
            return False
        signs.add(size > 0)
    return len(signs) == 1


def _search_rounds(
    y: Array,
    z: Array,
    se: Array,
    options: Options,
    rng: np.random.Generator,
    *,
    breaks_first: bool = False,
    moves_kinks: bool = False,
) -> Rounds:
    taken: list[tuple[Candidate, Array]] = []
    p_values: list[float] = []
    rivals: list[Candidate | None] = []
    last = search_break(y, grid_of(z, se), options.n_bootstrap, options.confidence, rng)
    names = tuple(null.name for null in last.nulls)
    while (k := last.winner(breaks_first=breaks_first)) is not None:
        item, column = last.grid.candidates.items[k], last.grid.candidates.columns[:, k]
        effects = column_effects(y, last.nulls, column)[0]
        if item.shape is not Shape.SPIKE and (np.abs(effects) < options.minimum[item.shape]).any():
            break
        if moves_kinks and item.shape is Shape.KINK:
            column = best_hinge(y, last, item)
        taken.append((item, column))
        rivals.append(last.best_break() if item.shape is Shape.SPIKE else None)
        names = tuple(null.name for null in last.nulls)
        p_values.append(float(last.p_values[:, k].max()))
        grid = grid_of(z, se, taken)
        if len(taken) >= MAX_ROUNDS or not can_search(grid):
            break
        last = search_break(y, grid, options.n_bootstrap, options.confidence, rng)
    return Rounds(tuple(taken), tuple(p_values), last, names, tuple(rivals))
