"""Where a found break lies, how large it is and how sharp: everything told after the search.

Uses only the linear model of each family around its fit with the break (`Local`), and only the
families that fit: a family that misses the data says nothing about where the break is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from harness.stats.break_search import Search, build_nulls
from harness.stats.candidates import Candidate, Shape, hinge_at, step_at
from harness.stats.smooth import Array, Grid, Local, SmoothNull, project_gain, unit

FIT_FACTOR = 3.0
SET_DRAWS = 400
FAR = 25.0
N_PIVOTS = 33


@dataclass(frozen=True)
class Place:
    """One break described.

    Attributes:
        low: lower end of the location interval, log2 x.
        high: upper end.
        effect: log units of a jump, or log units per octave of a kink.
        effect_low: lower end of its interval.
        effect_high: upper end.
        width: fitted transition width, octaves.
        is_soft: whether a transition wider than the grid explains it clearly better.
        center: middle of the fitted transition, log2 x.
    """

    low: float
    high: float
    effect: float
    effect_low: float
    effect_high: float
    width: float
    is_soft: bool
    center: float


def describe(
    y: Array,
    grid: Grid,
    taken: tuple[Candidate, Array],
    names: Sequence[str],
    confidence: float,
    rng: np.random.Generator,
) -> Place:
    """Location set, effect and transition width of one candidate of `grid` and its column."""
    item, column = taken
    k = grid.candidates.items.index(item)
    nulls = [null for null in build_nulls(grid) if null.name in names]
    effects, errors, left = column_effects(y, nulls, column)
    good = left <= max(FIT_FACTOR, float(left.min()) * 1.5)
    z = float(norm.ppf((1 + confidence) / 2))
    fits = [null.local(y, column[:, None]) for null, ok in zip(nulls, good, strict=True) if ok]
    same = np.flatnonzero(grid.candidates.is_shape(item.shape))
    columns = grid.candidates.columns[:, same]
    kept = {k}
    for local in fits:
        kept |= {int(same[i]) for i in location_set(y, local, columns, confidence, rng)}
    items = [grid.candidates.items[i] for i in kept]
    width, is_soft, center = transition(y, fits[-1], grid.z, item)
    return Place(
        low=min(i.low for i in items),
        high=max(i.high for i in items),
        effect=float(np.median(effects[good])),
        effect_low=float((effects - z * errors)[good].min()),
        effect_high=float((effects + z * errors)[good].max()),
        width=width,
        is_soft=is_soft,
        center=center,
    )


def best_hinge(y: Array, search: Search, item: Candidate) -> Array:
    """The column of a kink moved to where it fits best, between the ends of its candidate's place.

    The family that fits best with the kink as found decides.
    """
    hinge = hinge_at(search.grid.z, item.pivot)
    left = column_effects(y, search.nulls, hinge)[2]
    local = search.nulls[int(left.argmin())].local(y, hinge[:, None])
    pivots = np.linspace(item.low, item.high, N_PIVOTS)
    columns = np.stack([hinge_at(search.grid.z, pivot) for pivot in pivots], axis=1)
    target = local.project @ (y - local.offset)
    best = int(project_gain(target[None], local.project @ columns)[0].argmax())
    out: Array = columns[:, best]
    return out


def column_effects(
    y: Array, nulls: Sequence[SmoothNull], column: Array
) -> tuple[Array, Array, Array]:
    """Weight of one column beside each family, its standard error, and the fit left, (F,) each.

    The fit left is the squared residual over its degrees of freedom.
    """
    rows = []
    for null in nulls:
        local = null.local(y, column[:, None])
        effect, covariance, left = local.effect(y, column[:, None])
        freedom = max(1, local.project.shape[0] - 1)
        rows.append((float(effect[0]), float(np.sqrt(covariance[0, 0])), left / freedom))
    table = np.array(rows)
    return table[:, 0], table[:, 1], table[:, 2]


def location_set(
    y: Array, local: Local, columns: Array, confidence: float, rng: np.random.Generator
) -> Array:
    """Which of `columns`, one place each, the data do not rule out as the true place.

    With t the data in the space left by the family and u_j the unit column of place j, the loss of
    place j is D_j = max_i (u_i t)^2 - (u_j t)^2. Were j the truth, t would be u_j (u_j t) plus unit
    noise; place j stays when D_j is within the `confidence` point of its loss in such draws.
    """
    target = local.project @ (y - local.offset)
    units = unit(local.project @ columns)
    weights = units.T @ target
    loss = (weights**2).max() - weights**2
    noise = rng.standard_normal((SET_DRAWS, target.size))
    kept = []
    for j in np.flatnonzero(loss <= FAR):
        gain = project_gain(noise + weights[j] * units[:, j], units)
        drawn = gain.max(axis=1) - gain[:, j]
        if loss[j] <= np.quantile(drawn, confidence, method="higher"):
            kept.append(j)
    out: Array = np.array(kept, dtype=int)
    return out


def transition(y: Array, local: Local, z: Array, item: Candidate) -> tuple[float, bool, float]:
    """Width (10 % to 90 %) of a soft step or bend in octaves, whether it is clear, and its middle.

    The step becomes 1 / (1 + exp(-(z - c) / s)) and the hinge s log(1 + exp((z - c) / s)), both
    4.4 s octaves wide; width and middle are searched on a grid. The gap around the place is the
    smallest width that the cells can show. "Clear" means a gain of 6.6 over the sharp break
    (the 1 % point of one degree of freedom) at more than one and a half gaps.
    """
    target = local.project @ (y - local.offset)
    floor = item.high - item.low
    sharp = step_at if item.shape is Shape.JUMP else hinge_at
    soft = _soft_step if item.shape is Shape.JUMP else _soft_hinge
    base = float(project_gain(target[None], local.project @ sharp(z, item.pivot)[:, None])[0, 0])
    widths = np.geomspace(floor, max(floor * 1.01, (z[-1] - z[0]) * 0.7), 12)
    middles = np.linspace(z[1], z[-2], 41)
    columns = np.stack([soft(z, c, w / 4.394) for w in widths for c in middles], axis=1)
    gain = project_gain(target[None], local.project @ columns)[0]
    best = int(gain.argmax())
    width, middle = float(widths[best // 41]), float(middles[best % 41])
    if gain[best] - base > 6.63 and width > 1.5 * floor:
        return width, True, middle
    return floor, False, item.pivot


def _soft_step(z: Array, center: float, scale: float) -> Array:
    out: Array = 1 / (1 + np.exp(-np.clip((z - center) / scale, -50, 50)))
    return out


def _soft_hinge(z: Array, center: float, scale: float) -> Array:
    out: Array = scale * np.logaddexp(0, (z - center) / scale)
    return out
