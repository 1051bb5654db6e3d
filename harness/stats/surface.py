"""Where a quantile breaks over two or three axes: along one, along a product, or along a plane.

A capacity that several factors share breaks not at a value of one axis but where a product of them
passes it: requests in flight x context = tokens of memory. In the logs of the axes that is a plane,
and so are a break along one axis (its normal is that axis) and any other law of powers. A break is
claimed only where a step, or a bend, at some such plane beats every family of smooth surfaces.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.surface_nulls import SurfaceNull, build_surface_nulls

Array = NDArray[np.float64]
LEAST_CELLS: Final = 12
LEAST_SIDE: Final = 3
"""Cells on either side of a break."""
N_ANGLES: Final = 16
"""Of a free plane, between its two axes."""
MOST_LEVELS: Final = 40
"""Places of a free plane that are tried."""
HELD: Final = 8.0
"""Loss of score up to which a form, or a level of it, is not ruled out."""
N_BOOTSTRAP: Final = 999
POWER: Final = 0.84
"""Standard errors above the threshold at which 80 % are found."""


class Form(StrEnum):
    """The law of a plane, from the plainest."""

    AXIS = "axis"
    PRODUCT = "product"
    HALF_PLANE = "half_plane"


class SurfaceKind(StrEnum):
    """What happens at the plane."""

    JUMP = "jump"
    KINK = "kink"


ORDER: Final = (Form.AXIS, Form.PRODUCT, Form.HALF_PLANE)


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A break over several axes, or that there is none.

    Attributes:
        kind: a step, or a change of slope; None where nothing is claimed.
        form: the plane's law; None likewise.
        axes: which take part, by column.
        weights: their exponents; a product's and an axis's are 1.
        level: the break is where the product of x_i ** weight_i passes this.
        low: bounds of the level.
        high: likewise.
        effect: relative step across it, 0.4 is +40 %; of a kink log units for each octave.
        effect_low: bounds of the effect, over every family that fits.
        effect_high: likewise.
        detectable_effect: a step that would have been found in about 80 % of cases; None where
            these cells cannot show any.
        caveats: what limits it.
    """

    kind: SurfaceKind | None = None
    form: Form | None = None
    axes: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    level: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    detectable_effect: float | None = None
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True)
class _Plane:
    """One place of one law: cells above `cut` (in octaves along the normal) are beyond it."""

    kind: SurfaceKind
    form: Form
    axes: tuple[int, ...]
    weights: tuple[float, ...]
    below: float
    cut: float
    above: float


def find_surface(
    x: ArrayLike,
    log_quantile: ArrayLike,
    se: ArrayLike,
    *,
    rng: np.random.Generator,
    min_effect: float = 0.10,
    confidence: float = 0.95,
    n_bootstrap: int = N_BOOTSTRAP,
) -> Surface:
    """The strongest step of a log quantile over several axes.

    Each family of smooth surfaces is fitted, and the gain of every plane over it compared with the
    largest gain over all planes where the family is the truth (parametric bootstrap). A plane
    counts by its worst margin over the families. Of forms that fit about alike the plainest is
    told; the level's interval holds every place of it that the data do not rule out.

    Shapes: x (n_cells, n_axes), above zero; log_quantile and se (n_cells,). Cells with an infinite
    quantile are left out.

    Raises:
        ValueError: shapes that do not match, NaN, x or se not above zero.
    """
    z, y, error, caveats = _checked(x, log_quantile, se)
    planes = list(_planes(z))
    if len(y) < LEAST_CELLS or not planes:
        text = f"{len(y)} usable cells over {z.shape[1]} axes: too few for a surface."
        return Surface(caveats=(*caveats, Caveat(CaveatKind.SMALL_GRID, text)))
    columns = np.column_stack([_side(z, plane) for plane in planes])
    nulls = build_surface_nulls(z, y, error)
    gains = np.array([null.gains(columns) for null in nulls])
    limits = np.array([null.threshold(columns, confidence, n_bootstrap, rng) for null in nulls])
    margins = (np.sqrt(gains) - np.sqrt(limits)[:, None]).min(axis=0)
    steps = np.array([plane.kind is SurfaceKind.JUMP for plane in planes])
    detectable = _detectable(columns[:, steps], nulls, limits)
    if not (margins > 0).any():
        return Surface(detectable_effect=detectable, caveats=tuple(caveats))
    scores = (gains - np.array([null.cost for null in nulls])[:, None]).max(axis=0)
    return _told(
        planes, _plainest(planes, scores), columns, nulls, scores,
        min_effect=min_effect, confidence=confidence, detectable=detectable, caveats=caveats,
    )  # fmt: skip


def _planes(z: Array) -> Iterator[_Plane]:
    """Every place of every law that leaves enough cells on both sides."""
    n_axes = z.shape[1]
    for i in range(n_axes):
        yield from _places(z, Form.AXIS, (i,), (1.0,), z.shape[0])
    for n in range(2, n_axes + 1):
        for axes in combinations(range(n_axes), n):
            yield from _places(z, Form.PRODUCT, axes, (1.0,) * n, z.shape[0])
    for pair in combinations(range(n_axes), 2):
        for angle in np.linspace(0, math.pi / 2, N_ANGLES + 2)[1:-1].tolist():
            weights = (1.0, math.tan(angle))
            yield from _places(z, Form.HALF_PLANE, pair, weights, MOST_LEVELS)


def _places(
    z: Array, form: Form, axes: tuple[int, ...], weights: tuple[float, ...], most: int
) -> Iterator[_Plane]:
    along = np.sort(z[:, axes] @ np.array(weights))
    values = along[np.concatenate([[True], np.diff(along) > 1e-9])]
    inside = [
        (a, b)
        for a, b in zip(values[:-1].tolist(), values[1:].tolist(), strict=True)
        if LEAST_SIDE <= np.count_nonzero(along < b - 1e-12) <= along.size - LEAST_SIDE
    ]
    step = max(1, math.ceil(len(inside) / most))
    for below, above in inside[::step]:
        middle = (below + above) / 2
        yield _Plane(SurfaceKind.JUMP, form, axes, weights, below, middle, above)
        for pivot in (below, middle):
            yield _Plane(SurfaceKind.KINK, form, axes, weights, below, pivot, above)


def _side(z: Array, plane: _Plane) -> Array:
    beyond: Array = z[:, plane.axes] @ np.array(plane.weights) - plane.cut
    if plane.kind is SurfaceKind.KINK:
        return np.maximum(beyond, 0.0)
    return np.where(beyond > 0, 1.0, 0.0)


def _plainest(planes: list[_Plane], scores: Array) -> int:
    """The best plane of the plainest form that the data leave.

    That there is a break was tested over all forms together; which law it follows is another
    question, and a free plane has hundreds of places to fit by chance. A score is what a plane and
    the family that describes the rest best leave unexplained, with the sign turned.
    """
    for form in ORDER:
        mine = np.array([plane.form is form for plane in planes])
        k = int(np.where(mine, scores, -np.inf).argmax())
        if mine[k] and scores[k] >= scores.max() - HELD:
            return k
    raise AssertionError("the best of all has a form")


def _told(
    planes: list[_Plane],
    best: int,
    columns: Array,
    nulls: list[SurfaceNull],
    scores: Array,
    *,
    min_effect: float,
    confidence: float,
    detectable: float | None,
    caveats: list[Caveat],
) -> Surface:
    plane = planes[best]
    effects = [null.effect(columns[:, best]) for null in nulls if null.fits(columns[:, best])]
    effects = effects or [nulls[0].effect(columns[:, best])]
    z_score = float(ndtri((1 + confidence) / 2))
    size = float(np.median([value for value, _ in effects]))
    bounds = [value + sign * z_score * error for value, error in effects for sign in (-1, 1)]
    if plane.kind is SurfaceKind.JUMP and abs(math.expm1(size)) < min_effect:
        text = f"A step of {math.expm1(size):+.0%} is smaller than what counts ({min_effect:.0%})."
        return Surface(
            detectable_effect=detectable,
            caveats=(*caveats, Caveat(CaveatKind.NO_CHANGE, text)),
        )  # fmt: skip
    alike = [
        each
        for each, score in zip(planes, scores.tolist(), strict=True)
        if _law(each) == _law(plane) and score > scores[best] - HELD
    ]
    told = math.expm1 if plane.kind is SurfaceKind.JUMP else float
    return Surface(
        kind=plane.kind,
        form=plane.form,
        axes=plane.axes,
        weights=plane.weights,
        level=2**plane.cut,
        low=2 ** min(each.below for each in alike),
        high=2 ** max(each.above for each in alike),
        effect=told(size),
        effect_low=told(min(bounds)),
        effect_high=told(max(bounds)),
        detectable_effect=detectable,
        caveats=tuple(caveats),
    )


def _law(plane: _Plane) -> tuple[object, ...]:
    return plane.kind, plane.form, plane.axes, plane.weights


def _detectable(columns: Array, nulls: list[SurfaceNull], limits: Array) -> float | None:
    """The step across a middling plane that would be found in 80 % of cases, worst family."""
    sizes = []
    for null, limit in zip(nulls, limits.tolist(), strict=True):
        lengths = null.lengths(columns)
        middle = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 0.0
        if middle <= 0:
            return None
        sizes.append((math.sqrt(limit) + POWER) / middle)
    return math.expm1(max(sizes)) if max(sizes) < math.log(100) else None


def _checked(
    x: ArrayLike, log_quantile: ArrayLike, se: ArrayLike
) -> tuple[Array, Array, Array, list[Caveat]]:
    places, y, error = (np.asarray(v, dtype=float) for v in (x, log_quantile, se))
    if places.ndim != 2 or places.shape[1] not in {2, 3} or y.shape != error.shape:
        msg = f"x: got shape {places.shape}, allowed (n_cells, 2 or 3)"
        raise ValueError(msg)
    if y.shape != (places.shape[0],):
        msg = f"log_quantile, se: got shapes {y.shape}, {error.shape}, allowed ({len(places)},)"
        raise ValueError(msg)
    if np.isnan(places).any() or np.isnan(y).any() or np.isnan(error).any():
        msg = "x, log_quantile, se: got NaN, allowed numbers; leave such cells out"
        raise ValueError(msg)
    if (places <= 0).any() or (error <= 0).any():
        msg = "x, se: got a value that is not above 0; axes are taken as logs"
        raise ValueError(msg)
    usable = np.isfinite(y) & np.isfinite(error) & np.isfinite(places).all(axis=1)
    caveats = []
    if not usable.all():
        text = f"{int((~usable).sum())} cells left out of the surface: quantile unbounded."
        caveats.append(Caveat(CaveatKind.CENSORED, text))
    floor = np.median(error[usable]) / 2 if usable.any() else 0.0
    return np.log2(places[usable]), y[usable], np.maximum(error[usable], floor), caveats
