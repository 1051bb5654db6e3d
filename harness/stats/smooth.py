"""Smooth curves over one axis: what a break has to beat.

Each family answers three questions: how much better does each candidate break fit the data than
the family alone (`observed`), how much better it would fit if the family were the truth
(`simulated`), and what the family looks like around its fit (`local`, a linear model). A law that
no family resembles makes every smooth curve look broken, so there are several of them and a break
has to beat each.

All work on y = log quantile with known standard errors. Gains are twice the gain in log likelihood.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from harness.stats.candidates import Candidates

Array = NDArray[np.float64]
SPLINE_CELLS = 7


@dataclass(frozen=True)
class Local:
    """A smooth family linearised around one fit, its own freedom projected out.

    For data y = smooth + columns @ effect + noise, `project @ (y - offset)` is
    `project @ columns @ effect` plus noise of unit variance.

    Shapes: project (r, n), offset (n,).
    """

    project: Array
    offset: Array

    def effect(self, y: Array, columns: Array) -> tuple[Array, Array, float]:
        """Least-squares effect (d,), its covariance (d, d) and the squared residual left."""
        design = self.project @ columns
        target = self.project @ (y - self.offset)
        covariance = np.linalg.pinv(design.T @ design).astype(float)
        effect: Array = covariance @ design.T @ target
        residual = target - design @ effect
        return effect, covariance, float(residual @ residual)


class SmoothNull(Protocol):
    """One family of smooth curves, bound to a grid, its errors and its candidates."""

    name: str

    def observed(self, y: Array) -> Array:
        """Gain of each candidate on the data, (K,)."""

    def gain(self, y: Array, k: int) -> float:
        """Gain of candidate `k` alone."""

    def simulated(self, y: Array, draws: int, rng: np.random.Generator) -> Array:
        """Gains on `draws` data sets drawn from the family as fitted to `y`, (draws, K)."""

    def local(self, y: Array, columns: Array) -> Local:
        """The family around its fit with `columns` added, (n, d)."""


@dataclass(frozen=True)
class Grid:
    """What every family is bound to.

    Attributes:
        z: log2 x of the cells, increasing.
        se: standard errors of their log quantiles.
        free: columns fitted beside every curve: breaks found before, (n, f).
        candidates: what is searched for.
    """

    z: Array
    se: Array
    free: Array
    candidates: Candidates


def project_gain(target: Array, columns: Array) -> Array:
    """Squared length of each row of `target` along each of `columns`.

    Shapes: target (B, r); columns (r, K); result (B, K).
    """
    gain: Array = (target @ unit(columns)) ** 2
    return gain


def unit(columns: Array) -> Array:
    """Columns of length one; those with (nearly) no length become zero."""
    length = np.sqrt((columns**2).sum(axis=0))
    keep = length > 1e-9 * max(1.0, float(length.max(initial=0.0)))
    out: Array = columns * np.divide(1.0, length, out=np.zeros_like(length), where=keep)
    return out


def complement(columns: Array) -> Array:
    """Orthonormal rows spanning what `columns` (n, p) leave, (n - rank, n)."""
    if columns.shape[1] == 0:
        return np.eye(columns.shape[0])
    scaled = unit(columns)
    rows: Array = null_space(scaled.T, rcond=1e-10).T
    return rows


class PolynomialNull:
    """Polynomial in log x, on the log scale: cubic, or quadratic on fewer than seven cells."""

    def __init__(self, grid: Grid) -> None:
        degree = 3 if grid.z.size >= SPLINE_CELLS else 2
        self.name = {2: "quadratic", 3: "cubic"}[degree]
        t = (grid.z - grid.z.mean()) / np.ptp(grid.z)
        columns = np.column_stack([np.vander(t, degree + 1), grid.free]) / grid.se[:, None]
        self._project = complement(columns) / grid.se
        self._columns = self._project @ grid.candidates.columns

    def observed(self, y: Array) -> Array:
        """See `SmoothNull`."""
        gain: Array = project_gain((self._project @ y)[None], self._columns)[0]
        return gain

    def gain(self, y: Array, k: int) -> float:
        """See `SmoothNull`."""
        return float(self.observed(y)[k])

    def simulated(self, y: Array, draws: int, rng: np.random.Generator) -> Array:
        """See `SmoothNull`; a linear family's gains do not depend on its fit."""
        del y
        noise = rng.standard_normal((draws, self._project.shape[0]))
        return project_gain(noise, self._columns)

    def local(self, y: Array, columns: Array) -> Local:
        """See `SmoothNull`."""
        del columns
        return Local(self._project, np.zeros_like(y))
