"""Smooth surfaces over two or three axes: what a break across them has to beat.

Polynomials in the logs of the axes, and non-negative mixtures of what costs of serving are made of:
powers and logs of single axes and of products of two. A surface that no family resembles would look
broken everywhere, so that a break has to beat each of them.
"""

import math
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import nnls
from scipy.stats import chi2

Array = NDArray[np.float64]
FITS: Final = 1e-4
N_STEPS: Final = 30
MAX_PIVOTS: Final = 1000
RIDGE_POWERS: Final = (3, 4, 5, 6)
"""Of the product of two axes: what they share may rise in any smooth way."""
LOADS: Final = (0.5, 0.8, 0.9, 0.95)
"""Of a queue at the largest place of the grid."""
LEFT: Final = 4
"""Directions that a family must leave to judge by."""


@dataclass(frozen=True)
class SurfaceNull:
    """One family, linear around its fit, its own freedom projected out.

    Shapes: project (r, n) takes cells to r directions of unit noise that the family cannot move;
    target (r,) is what the data leave there.
    """

    name: str
    project: Array
    target: Array
    n_free: int

    @property
    def cost(self) -> float:
        """What it leaves unexplained, and twice its freedoms: less is a better description."""
        return float(self.target @ self.target) + 2 * self.n_free

    def gains(self, columns: Array) -> Array:
        """Twice the gain in log likelihood of each column, (K,)."""
        along, length = self._unit(columns)
        gain: Array = np.where(length > 0, (self.target @ along) ** 2, 0.0)
        return gain

    def threshold(
        self, columns: Array, confidence: float, n_draws: int, rng: np.random.Generator
    ) -> float:
        """The largest gain over all columns that chance stays below so often, without a break."""
        along, _ = self._unit(columns)
        noise = rng.standard_normal((n_draws, len(self.target)))
        largest = np.sort(((noise @ along) ** 2).max(axis=1))
        rank = min(n_draws, math.ceil(confidence * (n_draws + 1))) - 1
        return float(largest[rank])

    def effect(self, column: Array) -> tuple[float, float]:
        """Least-squares size of a column, and its standard error."""
        direction = self.project @ column
        length = float(direction @ direction)
        return float(self.target @ direction) / length, 1 / math.sqrt(length)

    def fits(self, column: Array) -> bool:
        """Whether the family with this column is within the errors."""
        left = float(self.target @ self.target) - float(self.gains(column[:, None])[0])
        return bool(chi2.sf(max(left, 0.0), max(1, len(self.target) - 1)) >= FITS)

    def lengths(self, columns: Array) -> Array:
        """How many standard errors a step of one log unit moves, (K,)."""
        return self._unit(columns)[1]

    def _unit(self, columns: Array) -> tuple[Array, Array]:
        along = self.project @ columns
        length: Array = np.sqrt(np.einsum("rk,rk->k", along, along))
        is_seen = length > 1e-6 * max(1.0, float(length.max(initial=0.0)))
        unit: Array = along / np.where(is_seen, length, 1.0) * is_seen
        return unit, np.where(is_seen, length, 0.0)


def build_surface_nulls(z: Array, y: Array, se: Array) -> list[SurfaceNull]:
    """The families that these cells are enough for; the plainest always.

    Shapes: z (n, d) in octaves.
    """
    n_axes = z.shape[1]
    scaled = (z - z.mean(axis=0)) / np.maximum(np.ptp(z, axis=0), 1e-9)
    quadratic = _powers(scaled, 2)
    cubic = np.column_stack([quadratic, *(scaled[:, i] ** 3 for i in range(n_axes))])
    full = _powers(scaled, 3)
    along = [scaled[:, i] + scaled[:, j] for i, j in combinations(range(n_axes), 2)]
    ridges = np.column_stack([quadratic, *(s**k for s in along for k in RIDGE_POWERS)])
    found = [_linear("quadratic", quadratic, y, se)]
    found += [
        _linear(name, basis, y, se)
        for name, basis in (("cubic", cubic), ("full cubic", full), ("ridges", ridges))
        if _rank(basis) + LEFT <= len(y)
    ]
    mixture = _mixture(z, y, se)
    return [*found, mixture] if mixture is not None else found


def _powers(z: Array, degree: int) -> Array:
    columns = [np.ones(len(z))]
    for k in range(1, degree + 1):
        for axes in combinations_with_replacement(range(z.shape[1]), k):
            columns += [np.prod(z[:, axes], axis=1)]
    return np.column_stack(columns)


def _linear(name: str, basis: Array, y: Array, se: Array) -> SurfaceNull:
    """The family of a basis: everything orthogonal to it, in standard errors."""
    complement = _complement(basis / se[:, None])
    return SurfaceNull(name, complement / se, complement @ (y / se), len(y) - len(complement))


def _mixture(z: Array, y: Array, se: Array) -> SurfaceNull | None:
    """Non-negative sum of costs on the linear scale, by its tangent at the fit."""
    basis = _costs(z)
    weights = np.zeros(basis.shape[1])
    fitted = np.exp(y)
    for _ in range(N_STEPS):
        scale = 1 / (fitted * se)
        try:
            weights, _ = nnls(basis * scale[:, None], np.exp(y) * scale, maxiter=MAX_PIVOTS)
        except RuntimeError:  # it turns in circles among columns that are almost alike
            return None
        new = np.maximum(basis @ weights, 1e-12 * float(np.exp(y).max()))
        if np.allclose(new, fitted, rtol=1e-6):
            break
        fitted = new
    active = basis[:, weights > 0]
    if active.shape[1] == 0 or active.shape[1] + LEFT > len(y):
        return None
    tangent = active / fitted[:, None]
    complement = _complement(tangent / se[:, None])
    target = complement @ ((y - np.log(fitted)) / se)
    return SurfaceNull("mixture", complement / se, target, len(y) - len(complement))


def _costs(z: Array) -> Array:
    """1, log, u, u log u, u^2 and queues of each axis, and the like of products of two axes.

    u is x over its least; a queue is r / (1 - r) with r its load, growing with u or with a product.
    """
    u = 2 ** (z - z.min(axis=0))
    single = [
        column
        for i in range(z.shape[1])
        for column in (np.log(u[:, i]), u[:, i], u[:, i] * np.log(u[:, i]), u[:, i] ** 2)
    ]
    pairs = [
        u[:, i] ** a * u[:, j] ** b
        for i, j in combinations(range(z.shape[1]), 2)
        for a, b in ((1, 1), (1, 2), (2, 1), (2, 2))
    ]
    products = [u[:, i] * u[:, j] for i, j in combinations(range(z.shape[1]), 2)]
    loads = [
        load * s / s.max()
        for s in (*(u[:, i] for i in range(z.shape[1])), *products)
        for load in LOADS
    ]
    queues = [load / (1 - load) for load in loads]
    columns = np.column_stack([np.ones(len(z)), *single, *pairs, *queues])
    largest = columns.max(axis=0)
    scaled: Array = columns / np.where(largest > 0, largest, 1.0)
    return scaled


def _rank(basis: Array) -> int:
    return int(np.linalg.matrix_rank(basis))


def _complement(columns: Array) -> Array:
    """Orthonormal rows that no combination of the columns has a part in."""
    rank = _rank(columns)
    q, _, _ = qr(columns, mode="full", pivoting=True)
    rows: Array = np.asarray(q[:, rank:].T, dtype=float)
    return rows
