"""Every place and shape in which a curve over one axis may break.

With z = log2 x of the cells, a jump is a step between two neighbouring cells and a kink a change of
slope at a pivot. A spike is one cell standing alone: it is never reported as a break, it only keeps
an outlier from being taken for one. Every candidate adds one column to a smooth curve.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

MIN_SIDE = 2


class Shape(StrEnum):
    """What happens at the place."""

    JUMP = "jump"
    KINK = "kink"
    SPIKE = "spike"


@dataclass(frozen=True)
class Candidate:
    """One shape at one place.

    Attributes:
        shape: what happens there.
        below: last cell below the place, in sorted order.
        pivot: its place, log2 x.
        low: lower end of what the place cannot be told from on this grid, log2 x.
        high: upper end of it.
    """

    shape: Shape
    below: int
    pivot: float
    low: float
    high: float


@dataclass(frozen=True)
class Candidates:
    """All K candidates of one grid and the columns they add to a smooth curve.

    Shapes: columns (n, K).
    """

    items: tuple[Candidate, ...]
    columns: NDArray[np.float64]

    def is_shape(self, *shapes: Shape) -> NDArray[np.bool_]:
        """Which candidates have one of `shapes`, (K,)."""
        return np.array([item.shape in shapes for item in self.items])


def build_candidates(z: NDArray[np.float64]) -> Candidates:
    """Candidates of the sorted grid `z` (log2 x).

    At least two cells stay on either side of a break. Pivots of kinks are the cells and the middles
    of the gaps.
    """
    n = z.size
    middles = (z[:-1] + z[1:]) / 2
    items, columns = [], []
    for k in range(MIN_SIDE - 1, n - MIN_SIDE):
        gap = (k, float(middles[k]), float(z[k]), float(z[k + 1]))
        items += [Candidate(Shape.JUMP, *gap), Candidate(Shape.KINK, *gap)]
        columns += [step_at(z, middles[k]), hinge_at(z, middles[k])]
    for k in range(MIN_SIDE, n - MIN_SIDE):
        around = (float(middles[k - 1]), float(middles[k]))
        items.append(Candidate(Shape.KINK, k, float(z[k]), *around))
        columns.append(hinge_at(z, z[k]))
    for k in range(n):
        items.append(Candidate(Shape.SPIKE, k, float(z[k]), float(z[k]), float(z[k])))
        columns.append(np.eye(n)[k])
    return Candidates(tuple(items), np.column_stack(columns))


def step_at(z: NDArray[np.float64], pivot: float) -> NDArray[np.float64]:
    """1 above the pivot, 0 below: its weight is a jump in log units."""
    return (z > pivot).astype(float)


def hinge_at(z: NDArray[np.float64], pivot: float) -> NDArray[np.float64]:
    """Octaves above the pivot: its weight is a change of slope in log units per octave."""
    out: NDArray[np.float64] = np.maximum(z - pivot, 0)
    return out
