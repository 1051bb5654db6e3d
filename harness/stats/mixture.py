"""Non-negative mixtures of basis curves: families with the shapes that costs of serving have."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from harness.stats.smooth import Array, Grid, Local, complement, project_gain

MAX_STEPS = 50


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
