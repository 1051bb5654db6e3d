"""Smooth curves over one axis: what a break has to beat.

Each family answers three questions: how much better does each candidate break fit the data than
the family alone (`observed`), how much better it would fit if the family were the truth
(`simulated`), and what the family looks like around its fit (`local`, a linear model). A law that
no family resembles makes every smooth curve look broken, so there are several of them and a break
has to beat each.

All work on y = log quantile with known standard errors. Gains are twice the gain in log likelihood.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.optimize import nnls

from harness.stats.candidates import Candidates

Array = NDArray[np.float64]
MAX_STEPS = 50
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


class SplineNull:
    """Smoothing spline in log x, its smoothness chosen by marginal likelihood.

    The curve is a parabola in (log x, log y) plus twice integrated Brownian motion of variance v,
    whose posterior mean is the quintic smoothing spline (third derivative penalised): the kernel is
    k(s, t) = s^3 (10 t^2 - 5 t s + s^2) / 120 for s <= t. In the basis where both covariances are
    diagonal (noise 1, curve v d_i), with t_i the data and R_k(v) the gain of candidate k by
    generalised least squares,

        2 l_0(v) = -sum_i [log(1 + v d_i) + t_i^2 / (1 + v d_i)],
        gain_k = max_v [2 l_0(v) + R_k(v)] - max_v 2 l_0(v).

    Draws come from the marginal law at the fitted v (a random curve and noise): draws around the
    fitted curve itself would carry the break they are to be compared with.

    Source: Wahba, Spline Models for Observational Data, sections 1.5 and 4.8; Wood, JRSS B 73
        (2011), 3-36, for marginal likelihood against cross-validation.
    """

    name = "spline"

    def __init__(self, grid: Grid) -> None:
        t = (grid.z - grid.z[0]) / np.ptp(grid.z)
        fixed = np.column_stack([np.vander(t, 3), grid.free]) / grid.se[:, None]
        rows = complement(fixed)
        small, large = np.minimum.outer(t, t), np.maximum.outer(t, t)
        kernel = small**3 * (10 * large**2 - 5 * large * small + small**2) / 120
        kernel /= np.outer(grid.se, grid.se)
        size, vectors = np.linalg.eigh(rows @ kernel @ rows.T)
        self._size = np.maximum(size, 0)
        self._project = vectors.T @ rows / grid.se
        self._columns = self._project @ grid.candidates.columns
        self._variances = self._roughness()

    def _roughness(self) -> Array:
        """Grid of v: from a straight line to a curve of (n - 2) / 2 + 2 degrees of freedom."""
        wanted = np.array([0.3, 0.7, 1.2, 1.8, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0])
        wanted = wanted[wanted <= (self._size.size + 1) / 2]
        trial = np.geomspace(1e-8, 1e12, 400)
        share = trial[:, None] * self._size
        freedom = (share / (1 + share)).sum(axis=1)
        found: Array = np.interp(wanted, freedom, trial)
        return np.concatenate([[0.0], found])

    def _likelihoods(self, target: Array) -> Array:
        """2 l_0(v) for each row and each v, (B, V)."""
        scale = 1 + np.outer(self._size, self._variances)
        out: Array = -np.log(scale).sum(axis=0) - target**2 @ (1 / scale)
        return out

    def _gains(self, target: Array) -> Array:
        null = self._likelihoods(target)
        best = np.full((target.shape[0], self._columns.shape[1]), -np.inf)
        for i, v in enumerate(self._variances):
            root = np.sqrt(1 + v * self._size)
            gain = project_gain(target / root, self._columns / root[:, None])
            np.maximum(best, null[:, i : i + 1] + gain, out=best)
        out: Array = best - null.max(axis=1)[:, None]
        return out

    def observed(self, y: Array) -> Array:
        """See `SmoothNull`."""
        gain: Array = self._gains((self._project @ y)[None])[0]
        return gain

    def gain(self, y: Array, k: int) -> float:
        """See `SmoothNull`."""
        return float(self.observed(y)[k])

    def simulated(self, y: Array, draws: int, rng: np.random.Generator) -> Array:
        """See `SmoothNull`."""
        v = self._variances[int(self._likelihoods((self._project @ y)[None]).argmax())]
        noise = rng.standard_normal((draws, self._size.size))
        return self._gains(noise * np.sqrt(1 + v * self._size))

    def local(self, y: Array, columns: Array) -> Local:
        """See `SmoothNull`; v is the one that fits best beside `columns`."""
        target = self._project @ y
        null = self._likelihoods(target[None])[0]
        added = self._project @ columns
        fits = []
        for i, v in enumerate(self._variances):
            root = np.sqrt(1 + v * self._size)
            basis = np.linalg.qr(added / root[:, None])[0]
            fits.append(null[i] + float(((target / root) @ basis) @ ((target / root) @ basis)))
        root = np.sqrt(1 + self._variances[int(np.argmax(fits))] * self._size)
        return Local(self._project / root[:, None], np.zeros_like(y))


@dataclass(frozen=True)
class _Fit:
    """A mixture fitted to data: weights (J,), curve on the linear scale (n,), squared residual."""

    weights: Array
    curve: Array
    residual: float


@dataclass
class MixtureNull:
    """Non-negative mixture of basis curves on the linear scale: y = log(sum_j c_j b_j(x)), c >= 0.

    Least squares on the log scale with the given errors, by Gauss-Newton steps, each a
    non-negative least-squares problem: log f is linearised as log f0 + (B c) / f0 - 1.
    Draws use that linearisation at the fitted curve, solved exactly for all draws at once by
    trying every subset of active curves.

    Source: Lawson & Hanson, Solving Least Squares Problems, chapter 23 (non-negative part).
    """

    name: str
    basis: Array
    grid: Grid

    def __post_init__(self) -> None:
        """Scale the basis to a mean of one."""
        self.basis = self.basis / self.basis.mean(axis=0)

    def _fit(self, y: Array, columns: Array) -> _Fit:
        """Fit with the free columns and `columns` beside the mixture."""
        se = self.grid.se
        rows = complement(np.column_stack([self.grid.free, columns]) / se[:, None]) / se

        def residual(weights: Array) -> float:
            left = rows @ (y - np.log(self.basis @ weights))
            return float(left @ left)

        def solve(curve: Array) -> Array:
            design = rows @ (self.basis / curve[:, None])
            length = np.sqrt((design**2).sum(axis=0)) + 1e-300
            found: Array = nnls(design / length, rows @ (y - np.log(curve) + 1))[0] / length
            return found

        weights = solve(np.exp(y))
        if not (self.basis @ weights > 0).all():
            weights = np.eye(self.basis.shape[1])[0] * np.exp(y.mean())
        best = residual(weights)
        for _ in range(MAX_STEPS):
            goal = solve(self.basis @ weights)
            for part in (1.0, 0.5, 0.25, 0.1, 0.01):
                moved = (1 - part) * weights + part * goal
                value = residual(moved) if (self.basis @ moved > 0).all() else np.inf
                if value < best:
                    break
            else:
                break
            gained = best - value
            weights, best = moved, value
            if gained < 1e-4 * (1 + best):
                break
        return _Fit(weights, self.basis @ weights, best)

    def observed(self, y: Array) -> Array:
        """See `SmoothNull`."""
        null = self._fit(y, np.empty((y.size, 0))).residual
        columns = self.grid.candidates.columns
        fits = [self._fit(y, columns[:, k : k + 1]).residual for k in range(columns.shape[1])]
        return np.maximum(null - np.array(fits), 0)

    def gain(self, y: Array, k: int) -> float:
        """See `SmoothNull`."""
        column = self.grid.candidates.columns[:, k : k + 1]
        return max(0.0, self._fit(y, column[:, :0]).residual - self._fit(y, column).residual)

    def simulated(self, y: Array, draws: int, rng: np.random.Generator) -> Array:
        """See `SmoothNull`; the curves that have no weight in the fit stay without."""
        project = self.local(y, np.empty((y.size, 0))).project
        noise = rng.standard_normal((draws, project.shape[0]))
        return project_gain(noise, project @ self.grid.candidates.columns)

    def local(self, y: Array, columns: Array) -> Local:
        """See `SmoothNull`; the curves with a positive weight are free, the others absent."""
        fit = self._fit(y, columns)
        se = self.grid.se
        active = fit.weights > 1e-9 * fit.weights.max()
        tangent = (self.basis / fit.curve[:, None])[:, active]
        rows = complement(np.column_stack([tangent, self.grid.free]) / se[:, None])
        return Local(rows / se, np.log(fit.curve))


def mixture(grid: Grid) -> MixtureNull:
    """Mixture of {1, log u, u, u log u, u^2}, u = x / x_min: cost laws of computing."""
    u = 2 ** (grid.z - grid.z[0])
    logs = np.log(u)
    return MixtureNull("mixture", np.column_stack([np.ones_like(u), logs, u, u * logs, u**2]), grid)


def queue(grid: Grid) -> MixtureNull:
    """Mixture of {1, x, x^2 / (C - x)} for three capacities C above the axis: waiting in line."""
    x = 2 ** (grid.z - grid.z[-1])
    waits = [x**2 / (c - x) for c in (1.05, 1.25, 2.0)]
    return MixtureNull("queue", np.column_stack([np.ones_like(x), x, *waits]), grid)


def saturating(grid: Grid) -> MixtureNull:
    """Mixture of {1, log u, x / (x + h)} for three half-way points h: costs that level off."""
    x = 2 ** (grid.z - grid.z[-1])
    halves = [x / (x + h) for h in (0.03, 0.1, 0.4)]
    logs = np.log(2) * (grid.z - grid.z[0])
    return MixtureNull("saturating", np.column_stack([np.ones_like(x), logs, *halves]), grid)


FAMILIES: dict[str, Callable[[Grid], SmoothNull]] = {
    "polynomial": PolynomialNull,
    "mixture": mixture,
    "queue": queue,
    "saturating": saturating,
    "spline": SplineNull,
}
