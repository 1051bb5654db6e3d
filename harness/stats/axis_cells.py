"""The cells of one axis, checked and put in order: what a search for breaks starts from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.smooth import Array

SE_FLOOR = 0.5
"""Part of the median standard error below which no cell's is believed."""


@dataclass(frozen=True)
class AxisCells:
    """Checked cells in order of x; `order` leads back to the caller's indices."""

    order: NDArray[np.int64]
    z: Array
    y: Array
    se: Array
    caveats: tuple[Caveat, ...]


def axis_cells(
    x: ArrayLike, log_quantile: ArrayLike, se: ArrayLike, opened: ArrayLike | None
) -> AxisCells:
    """Cells in order of x, those with an infinite quantile left out, open ones named.

    Raises:
        ValueError: shapes that differ, NaN, x not above zero or twice the same, se not above zero.
    """
    axis, y, error = (np.asarray(v, dtype=float) for v in (x, log_quantile, se))
    mask = np.zeros(axis.shape, bool) if opened is None else np.asarray(opened, dtype=bool)
    shapes = {v.shape for v in (axis, y, error, mask)}
    if len(shapes) != 1 or axis.ndim != 1:
        msg = (
            f"x, log_quantile, se, open_upper: got shapes {sorted(shapes)}, allowed one axis, alike"
        )
        raise ValueError(msg)
    if np.isnan(axis).any() or np.isnan(y).any() or np.isnan(error).any():
        msg = "x, log_quantile, se: got NaN, allowed numbers; leave such cells out"
        raise ValueError(msg)
    if (axis <= 0).any() or np.isinf(axis).any():
        msg = f"x: got {axis.min():g} to {axis.max():g}, allowed finite and above 0 (log axis)"
        raise ValueError(msg)
    values, counts = np.unique(axis, return_counts=True)
    if (counts > 1).any():
        msg = (
            f"x: got {values[counts > 1][0]:g} twice, allowed once; pool the requests of such cells"
        )
        raise ValueError(msg)
    if (error <= 0).any():
        msg = f"se: got {error.min():g}, allowed above 0"
        raise ValueError(msg)
    if (y == -np.inf).any():
        msg = "log_quantile: got -inf, allowed finite or +inf"
        raise ValueError(msg)
    caveats = []
    usable = np.isfinite(y) & np.isfinite(error)
    if not usable.all():
        names = ", ".join(f"{v:g}" for v in np.sort(axis[~usable]))
        text = f"Left out of the fit, quantile unbounded: {names}."
        caveats.append(Caveat(CaveatKind.CENSORED, text))
    if mask[usable].any():
        names = ", ".join(f"{v:g}" for v in np.sort(axis[usable & mask]))
        text = f"No finite upper bound at {names}: the error is widened there."
        caveats.append(Caveat(CaveatKind.OPEN_BOUND, text))
    order = np.flatnonzero(usable)
    order = order[np.argsort(axis[order])]
    floor = SE_FLOOR * float(np.median(error[order])) if order.size else 0.0
    return AxisCells(
        order, np.log2(axis[order]), y[order], np.maximum(error[order], floor), tuple(caveats)
    )
