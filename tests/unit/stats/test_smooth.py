import numpy as np
import pytest

from harness.stats.break_search import build_nulls, grid_of
from harness.stats.candidates import Shape, build_candidates
from harness.stats.mixture import mixture, queue, saturating
from harness.stats.smooth import PolynomialNull
from harness.stats.spline import SplineNull
from tests.oracles import stats_oracle

X = np.geomspace(256, 32768, 9)
Z = np.log2(X)
SE = np.linspace(0.03, 0.06, 9)


def curve(seed: int) -> np.typing.NDArray[np.float64]:
    """A noisy cost law."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.log(20 + 0.05 * X + 1e-6 * X**2) + SE * rng.standard_normal(9))


def test_candidates_leave_two_cells_on_each_side() -> None:
    """Every jump and kink has at least two cells strictly on either side; spikes are everywhere."""
    found = build_candidates(Z)
    for item in found.items:
        if item.shape is not Shape.SPIKE:
            assert (item.pivot > Z).sum() >= 2
            assert (item.pivot < Z).sum() >= 2
    assert found.is_shape(Shape.SPIKE).sum() == 9
    assert found.is_shape(Shape.JUMP).sum() == 6
    assert found.columns.shape == (9, len(found.items))


@pytest.mark.parametrize("seed", range(3))
def test_cubic_gain_is_the_fall_of_the_residual(seed: int) -> None:
    """The gain over the cubic is the fall of the weighted squared residual."""
    grid = grid_of(Z, SE)
    y = curve(seed)
    gains = PolynomialNull(grid).observed(y)
    smooth = np.vander(Z - Z.mean(), 4)
    for k in range(gains.size):
        column = grid.candidates.columns[:, k]
        want = stats_oracle.least_squares_gain(y, SE, smooth, column)
        assert gains[k] == pytest.approx(want, abs=1e-6)


def test_spline_without_roughness_is_a_parabola() -> None:
    """Where the data are a parabola in log x, the spline's gain is that over a parabola."""
    grid = grid_of(Z, SE)
    y = 1 + 0.2 * Z + 0.01 * Z**2 + 1e-4 * np.sin(9 * Z)
    gains = SplineNull(grid).observed(y)
    smooth = np.vander(Z - Z.mean(), 3)
    for k in range(gains.size):
        want = stats_oracle.least_squares_gain(y, SE, smooth, grid.candidates.columns[:, k])
        assert gains[k] == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("family", [mixture, queue, saturating])
@pytest.mark.parametrize("seed", range(2))
def test_mixture_reaches_the_best_fit(family: object, seed: int) -> None:
    """Gauss-Newton steps reach the residual of a general minimiser tried on every active set."""
    assert callable(family)
    null = family(grid_of(Z, SE))
    y = curve(seed)
    for column in (None, null.grid.candidates.columns[:, 3]):
        want = stats_oracle.mixture_residual(y, SE, null.basis, column)
        added = np.empty((9, 0)) if column is None else column[:, None]
        assert null._fit(y, added).residual == pytest.approx(want, rel=1e-2, abs=0.02)


U = X / X[0]


@pytest.mark.parametrize(
    ("name", "smooth"),
    [
        ("cubic", 3 + 0.3 * Z),
        ("mixture", np.log(1 + 0.1 * U + 0.002 * U**2)),
        ("queue", np.log(1 + 0.5 * (U / 160) ** 2 / (1 - U / 160))),
        ("saturating", np.log(1 + U / (U + 12.8))),
        ("spline", 3 + 0.3 * Z),
    ],
)
def test_drawn_gains_have_the_law_of_real_ones(
    name: str, smooth: np.typing.NDArray[np.float64]
) -> None:
    """The 5 % point of drawn gains is exceeded by 1 to 10 % of data sets made from a curve."""
    grid = grid_of(Z, SE)
    null = next(n for n in build_nulls(grid) if n.name == name)
    rng = np.random.default_rng(12)
    point = np.quantile(null.simulated(smooth, 2000, rng).max(axis=1), 0.95)
    data = smooth + SE * rng.standard_normal((200, 9))
    above = sum(float(null.observed(y).max()) > point for y in data)
    assert 2 <= above <= 20


def test_effect_of_a_planted_jump_is_unbiased() -> None:
    """Each family estimates a planted jump within two of its standard errors of the truth."""
    grid = grid_of(Z, SE)
    column = (Z[4] < Z).astype(float)
    y = np.log(20 + 0.05 * X + 1e-6 * X**2) + 0.5 * column
    for null in build_nulls(grid):
        effect, covariance, _ = null.local(y, column[:, None]).effect(y, column[:, None])
        if null.name in {"cubic", "mixture", "spline"}:
            assert abs(effect[0] - 0.5) < 2 * float(np.sqrt(covariance[0, 0]))


def test_small_grid_leaves_the_spline_out() -> None:
    """Six cells are judged against a parabola and without the spline, seven against all."""
    small, large = grid_of(Z[:6], SE[:6]), grid_of(Z[:7], SE[:7])
    assert [n.name for n in build_nulls(small)] == ["quadratic", "mixture", "queue", "saturating"]
    assert [n.name for n in build_nulls(large)][-1] == "spline"
