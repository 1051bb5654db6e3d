"""Where to measure next on an axis so that a break is known to lie in a shorter stretch.

A jump is known to lie between two cells at best, so the way to place it is to measure between them:
a few new points inside the stretch that is left, evenly in octaves, shrink it by their number each
time. A uniform grid pays for every stretch that the break is not in.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.axis_cells import axis_cells
from harness.stats.break_search import build_nulls, can_search, grid_of
from harness.stats.candidates import Shape

N_INSIDE: Final = 3
"""New points a round: each is a whole cell, and the next round knows more."""
LEAST_CELLS: Final = 5
"""Two on either side of a break and one to bend."""
EDGE_OCTAVES: Final = 0.02
"""An interval's end this near to a cell is that cell: points there would tell nothing."""


def points_between(
    x: ArrayLike,
    low: float,
    high: float,
    *,
    within_octaves: float,
    snap: Callable[[float], float],
) -> list[float]:
    """New points of an axis that shorten [low, high]; empty once it is short enough.

    The stretch is taken outwards to the cells that hold it: they are what a break is placed
    between. `snap` gives the nearest value that the axis may take; points that are measured
    already are left out, so that an axis of whole numbers ends at neighbours.

    Shapes: x (n_cells,), any order.
    Units: low and high are places on the axis, above 0.

    Raises:
        ValueError: an empty stretch, or one that is not above 0.
    """
    if not 0 < low <= high < math.inf:
        msg = f"low and high: got {low} and {high}, allowed above 0, in order and finite"
        raise ValueError(msg)
    cells = np.sort(np.asarray(x, dtype=float))
    slack = 2**EDGE_OCTAVES
    below = cells[cells <= low * slack]
    above = cells[cells >= high / slack]
    left = float(below[-1]) if below.size else float(cells[0])
    right = float(above[0]) if above.size else float(cells[-1])
    if left <= 0 or not left < right or math.log2(right / left) <= within_octaves:
        return []
    n_inside = min(N_INSIDE, math.ceil(math.log2(right / left) / within_octaves) - 1)
    wanted = [snap(float(v)) for v in np.geomspace(left, right, n_inside + 2)[1:-1]]
    measured = set(cells.tolist())
    return [v for v in dict.fromkeys(wanted) if v not in measured and left < v < right]


def suspect_gap(x: ArrayLike, log_quantile: ArrayLike, se: ArrayLike) -> tuple[float, float] | None:
    """The gap between two cells where a jump would explain most; None on too small a grid.

    The gain of a jump there is the largest, by the family of smooth curves that leaves least to
    explain. Nothing is claimed by it: it is where measuring more would tell most.

    Shapes: x, log_quantile and se (n_cells,); cells whose quantile is infinite are left out.
    """
    cells = axis_cells(x, log_quantile, se, None)
    if cells.z.size < LEAST_CELLS:
        return None
    grid = grid_of(cells.z, cells.se)
    if not can_search(grid):
        return None
    gains = np.min([null.observed(cells.y) for null in build_nulls(grid)], axis=0)
    gains = np.where(grid.candidates.is_shape(Shape.JUMP), gains, -np.inf)
    best = grid.candidates.items[int(gains.argmax())]
    return 2.0**best.low, 2.0**best.high
