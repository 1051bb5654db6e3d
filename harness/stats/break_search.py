"""The search for one break: which candidate beats every family of smooth curves, if any does.

For each family the gain of every candidate is compared with the 95 % point of the largest gain over
all places and shapes when the family itself is the truth (parametric bootstrap). A candidate counts
only by its worst margin over the families (intersection-union test: the error of the whole is at
most that of the family nearest to the truth).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from harness.stats.candidates import Candidate, Candidates, Shape, build_candidates
from harness.stats.mixture import mixture, queue, saturating
from harness.stats.smooth import SPLINE_CELLS, Array, Grid, PolynomialNull, SmoothNull
from harness.stats.spline import SplineNull

MIN_ROWS = 2
MIN_PARAMETRIC = 2
HOPELESS = 1e-4


@dataclass(frozen=True)
class Search:
    """One round over all candidates.

    Attributes:
        grid: what was searched.
        nulls: the families fitted.
        gains: gain of each candidate over each family.
        thresholds: gain a break must exceed, by family.
        p_values: bootstrap p-value of each candidate's gain, by family.

    Shapes: gains and p_values (F, K), thresholds (F,).
    """

    grid: Grid
    nulls: tuple[SmoothNull, ...]
    gains: Array
    thresholds: Array
    p_values: Array

    @property
    def margins(self) -> Array:
        """By how much sqrt(gain) exceeds its threshold in the worst family, (K,)."""
        out: Array = (np.sqrt(self.gains) - np.sqrt(self.thresholds)[:, None]).min(axis=0)
        return out

    def winner(self, *, breaks_first: bool = False) -> int | None:
        """The candidate with the largest margin, or None where no margin is positive.

        With `breaks_first` a cell standing alone wins only where no break does.
        """
        margins = self.margins
        if breaks_first and self.best_break() is not None:
            margins = np.where(self.grid.candidates.is_shape(Shape.SPIKE), -np.inf, margins)
        best = int(margins.argmax())
        return best if margins[best] > 0 else None

    def best_break(self) -> Candidate | None:
        """The jump or kink with the largest margin, or None where no margin is positive."""
        is_break = self.grid.candidates.is_shape(Shape.JUMP, Shape.KINK)
        margins = np.where(is_break, self.margins, -np.inf)
        best = int(margins.argmax())
        return self.grid.candidates.items[best] if margins[best] > 0 else None


def search_break(
    y: Array, grid: Grid, n_bootstrap: int, confidence: float, rng: np.random.Generator
) -> Search:
    """Gains of all candidates against the families that can describe the data, with thresholds."""
    nulls = build_nulls(grid)
    observed = [null.observed(y) for null in nulls]
    keep = _possible(y, nulls, observed)
    is_break = grid.candidates.is_shape(Shape.JUMP, Shape.KINK)
    thresholds, p_values = [], []
    for i in keep:
        largest = np.sort(nulls[i].simulated(y, n_bootstrap, rng)[:, is_break].max(axis=1))
        rank = min(n_bootstrap, int(np.ceil(confidence * (n_bootstrap + 1)))) - 1
        above = n_bootstrap - np.searchsorted(largest, observed[i], side="left")
        thresholds.append(largest[rank])
        p_values.append((1 + above) / (n_bootstrap + 1))
    return Search(
        grid=grid,
        nulls=tuple(nulls[i] for i in keep),
        gains=np.array([observed[i] for i in keep]),
        thresholds=np.array(thresholds),
        p_values=np.array(p_values),
    )


def _possible(y: Array, nulls: list[SmoothNull], observed: list[Array]) -> list[int]:
    """Families that are not out of the question, by position.

    A family that misses the data even with its best candidate added (chi-square below 1e-4) is no
    description of them with or without a break, and what it takes for the best place means nothing.
    The family next to a smooth truth fits without any break, so it always stays. Where fewer than
    two parametric families would stay, all do.
    """
    keep = []
    for i, null in enumerate(nulls):
        target = residual(y, null)
        freedom = target.size - 1
        left = float(target @ target) - float(observed[i].max())
        if null.name == "spline" or freedom < 1 or chi2.sf(left, freedom) >= HOPELESS:
            keep.append(i)
    n_parametric = sum(nulls[i].name != "spline" for i in keep)
    return keep if n_parametric >= MIN_PARAMETRIC else list(range(len(nulls)))


def residual(y: Array, null: SmoothNull) -> Array:
    """What a family alone leaves of the data, in standard errors, one value a degree of freedom."""
    local = null.local(y, np.empty((y.size, 0)))
    out: Array = local.project @ (y - local.offset)
    return out


def build_nulls(grid: Grid) -> list[SmoothNull]:
    """The families that the grid is large enough for."""
    nulls: list[SmoothNull] = [PolynomialNull(grid), mixture(grid), queue(grid), saturating(grid)]
    if grid.z.size >= SPLINE_CELLS:
        nulls.append(SplineNull(grid))
    return nulls


def grid_of(z: Array, se: Array, taken: Sequence[tuple[Candidate, Array]] = ()) -> Grid:
    """The grid with the columns of `taken` fitted freely and their places no longer searched."""
    everything = build_candidates(z)
    used = {candidate for candidate, _ in taken}
    keep = [k for k, item in enumerate(everything.items) if item not in used]
    items = tuple(everything.items[k] for k in keep)
    free = [column for _, column in taken]
    columns = np.column_stack(free) if free else np.empty((z.size, 0))
    return Grid(z, se, columns, Candidates(items, everything.columns[:, keep]))


def can_search(grid: Grid) -> bool:
    """Whether the least flexible null leaves at least two directions to judge by."""
    fixed = 4 if grid.z.size >= SPLINE_CELLS else 3
    n_free = int(grid.free.shape[1])
    return int(grid.z.size) - fixed - n_free >= MIN_ROWS


def left_over(y: Array, search: Search) -> float:
    """Scale of what no family and no break explains, in standard errors: 1 where all is explained.

    With r the squared residual of a family on d degrees of freedom, a family explains the data when
    P(chi2_d >= r) >= 5 %. Where none does, the scale is the smallest sqrt(r / d). The spline is
    left out: it can follow anything.
    """
    scales = []
    for null in search.nulls:
        if null.name == "spline":
            continue
        target = residual(y, null)
        freedom = target.size
        if freedom == 0 or chi2.sf(target @ target, freedom) >= 0.05:
            return 1.0
        scales.append(float(np.sqrt(target @ target / freedom)))
    return max(1.0, min(scales))
