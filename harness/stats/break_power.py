"""The smallest jump that the grid and its errors would have shown."""

import math

import numpy as np
from scipy.stats import chi2

from harness.stats.break_search import HOPELESS, Search, residual
from harness.stats.candidates import Shape
from harness.stats.smooth import Array, unit

CUSHION = 1.3
INNER = 3
SIZES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0)


def detectable_jump(y: Array, search: Search, minimum: float) -> float | None:
    """Relative size of a jump found with about 80 % power in every gap three cells off the ends.

    The jump is planted, without noise, on the curve of the parametric family nearest to the data.
    It counts as found when the root of its gain exceeds the root of the threshold by 1.3 in every
    family that the planted data leave possible, and when it is told from each single cell standing
    alone by as much in units of its own noise. One family would need 0.84 for 80 %; the rest covers
    that all must be beaten at once. Sizes are tried on a fixed scale up to +900 %; None where even
    that is not found.
    """
    inner = range(INNER - 1, search.grid.z.size - INNER)
    items = search.grid.candidates.items
    jumps = [k for k, i in enumerate(items) if i.shape is Shape.JUMP and i.below in inner]
    base = _nearest_curve(y, search)
    sizes = [size for size in SIZES if size > minimum] or [minimum]
    sizes = [minimum, *sizes] if sizes[0] > minimum else sizes
    worst = 0
    for k in jumps:
        while worst < len(sizes) and not _is_found(base, search, k, math.log1p(sizes[worst])):
            worst += 1
    return sizes[worst] if jumps and worst < len(sizes) else None


def _nearest_curve(y: Array, search: Search) -> Array:
    """Fitted curve, breaks found included, of the parametric family that leaves least."""
    nulls = [null for null in search.nulls if null.name != "spline"]
    left = [residual(y, null) for null in nulls]
    best = int(np.argmin([r @ r / max(1, r.size) for r in left]))
    rows = nulls[best].local(y, np.empty((y.size, 0))).project * search.grid.se
    out: Array = y - search.grid.se * (rows.T @ left[best])
    return out


def _is_found(base: Array, search: Search, k: int, size: float) -> bool:
    columns = search.grid.candidates.columns
    y = base + size * columns[:, k]
    for null, threshold in zip(search.nulls, search.thresholds, strict=True):
        gain = null.gain(y, k)
        target = residual(y, null)
        left = float(target @ target) - gain + target.size - 1
        if null.name != "spline" and chi2.sf(left, max(1, target.size - 1)) < HOPELESS:
            continue
        if math.sqrt(gain) < math.sqrt(threshold) + CUSHION:
            return False
    spikes = search.grid.candidates.is_shape(Shape.SPIKE)
    for null in search.nulls:
        if null.name in {"mixture", "queue", "saturating"}:
            continue
        project = null.local(y, columns[:, k : k + 1]).project
        jump = project @ columns[:, k]
        length = float(np.sqrt(jump @ jump))
        alike = np.abs(jump @ unit(project @ columns[:, spikes])).max() / max(length, 1e-12)
        if size * length * math.sqrt(max(0.0, 1 - alike) / 2) < CUSHION:
            return False
    return True
