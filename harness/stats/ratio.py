"""How much slower one set of cells is than another: ratios of a quantile that hold together.

Reference and candidate are measured apart (another path, another run), so their errors add. What
moves between two runs as a whole is in neither side's segments and hence in no interval here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy.special import ndtri

from harness.stats.cell_quantile import CellQuantile, cell_quantiles
from harness.stats.quantile_ci import require_share

Cells = Sequence[Sequence[ArrayLike]]
POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class QuantileRatio:
    """Candidate over reference in one cell; below 1 is faster.

    Attributes:
        ratio: of the two quantiles; None where one of them is infinite.
        low: lower bound, 0 where there is none.
        high: upper bound, +inf where there is none.
        log_se: standard error of the log ratio.
        z: standard errors from the ratio to either bound.
    """

    ratio: float | None
    low: float
    high: float
    log_se: float
    z: float

    def detectable(self, limit: float) -> float:
        """Smallest ratio whose interval would lie above `limit` in 80 % of cases, were se exact."""
        return _exp(math.log(limit) + (self.z + float(ndtri(POWER))) * self.log_se)


def quantile_ratios(
    reference: Cells, candidate: Cells, q: float, confidence: float, n_together: int
) -> tuple[QuantileRatio, ...]:
    """Ratio of quantile `q` for each pair of cells; `n_together` intervals hold at once.

    ln r = y_c - y_r, se^2 = se_c^2 + se_r^2 with y and se by `cell_quantiles`, each side's cells
    together; bounds r exp(+-z se), z the 1 - (1 - confidence) / (2 n_together) quantile of the
    normal (Bonferroni): with that confidence no interval misses its truth.

    Shapes: reference and candidate hold the same number of cells; [c][s] is (n_cs,).

    Raises:
        ValueError: sides of unequal length, or what `cell_quantiles` refuses.
    """
    if len(reference) != len(candidate):
        msg = f"cells: got {len(reference)} and {len(candidate)}, allowed equally many"
        raise ValueError(msg)
    sides = zip(cell_quantiles(reference, q), cell_quantiles(candidate, q), strict=True)
    return ratios_of(tuple(sides), confidence, n_together)


def ratios_of(
    pairs: Sequence[tuple[CellQuantile, CellQuantile]], confidence: float, n_together: int
) -> tuple[QuantileRatio, ...]:
    """`quantile_ratios` of quantiles that are known: (reference, candidate).

    A cell may stand in many pairs: the bounds hold together however the pairs depend on each other.
    """
    require_share(confidence, "confidence")
    z = float(ndtri(1 - (1 - confidence) / (2 * n_together)))
    return tuple(
        _ratio(after.log_value - before.log_value, math.hypot(before.se, after.se), z)
        for before, after in pairs
    )


def _ratio(difference: float, se: float, z: float) -> QuantileRatio:
    if not math.isfinite(difference):
        return QuantileRatio(ratio=None, low=0.0, high=math.inf, log_se=math.inf, z=z)
    low, high = _exp(difference - z * se), _exp(difference + z * se)
    return QuantileRatio(ratio=_exp(difference), low=low, high=high, log_se=se, z=z)


def _exp(value: float) -> float:
    """Exponential that ends in infinity instead of an error."""
    return math.exp(value) if value < 700 else math.inf
