"""Smoothing spline as a family of smooth curves: any bend, as sharp as the whole curve is rough."""

import numpy as np

from harness.stats.smooth import Array, Grid, Local, complement, project_gain


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
        """Grid of v: from a parabola to half of the freedom that the cells leave beyond it."""
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
