import math

import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.bed import surfaces
from harness.stats.caveat import CaveatKind
from harness.stats.surface import Form, Surface, SurfaceKind, find_surface
from harness.stats.surface_nulls import build_surface_nulls


def grid(side: int = 7) -> np.ndarray:
    a, b = np.meshgrid(np.geomspace(1, 16, side), np.geomspace(1, 64, side), indexing="ij")
    return np.column_stack([a.ravel(), b.ravel()])


def search(x: np.ndarray, y: np.ndarray, se: float = 0.03, seed: int = 1) -> Surface:
    rng = generator(seed, "surface")
    return find_surface(x, y + se * rng.standard_normal(len(y)), np.full(len(y), se), rng=rng)


def smooth(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(1 + 0.3 * x[:, 0] + 0.05 * x[:, 1]))


def test_a_capacity_that_two_axes_share_is_a_product() -> None:
    """Level inside its interval, both exponents one, the size of the step inside its bounds."""
    x = grid()
    found = search(x, smooth(x) + math.log(1.5) * (x[:, 0] * x[:, 1] > 90))
    assert (found.kind, found.form) == (SurfaceKind.JUMP, Form.PRODUCT)
    assert found.weights == (1.0, 1.0)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 90 <= found.high
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low <= 0.5 <= found.effect_high


def test_a_break_along_one_axis_is_that_axis() -> None:
    """Whatever the other one is."""
    x = grid()
    found = search(x, smooth(x) + 0.4 * (x[:, 1] > 10))
    assert (found.form, found.axes) == (Form.AXIS, (1,))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 10 <= found.high


def test_another_law_of_powers_is_a_plane_of_its_own() -> None:
    """A x b^0.5: an exponent near to one half."""
    x = grid(12)
    found = search(x, smooth(x) + 0.5 * (x[:, 0] * np.sqrt(x[:, 1]) > 14))
    assert found.form is Form.HALF_PLANE
    assert 0.3 < found.weights[1] / found.weights[0] < 0.8


def test_three_axes_hold_a_break_of_two() -> None:
    """The third one takes no part."""
    axis = np.geomspace(1, 16, 5)
    x = np.array(np.meshgrid(axis, axis, axis, indexing="ij")).reshape(3, -1).T
    y = np.log(1 + 0.2 * x[:, 0] + 0.1 * x[:, 2]) + 0.4 * (x[:, 0] * x[:, 2] > 20)
    found = search(x, y)
    assert (found.form, found.axes) == (Form.PRODUCT, (0, 2))


@pytest.mark.parametrize("law", surfaces.SMOOTH)
def test_smooth_laws_have_no_jump(law: str) -> None:
    """At a level of 5 %: at most 2 of 6 searches, errors of 3 %."""
    x = grid()
    y = np.log(surfaces.SMOOTH[law](x[:, 0], x[:, 1]))
    claims = [search(x, y, seed=seed).kind is SurfaceKind.JUMP for seed in range(6)]
    assert sum(claims) <= 2


def test_a_bend_is_no_jump() -> None:
    """A slope that begins at a product."""
    x = grid(9)
    found = search(x, smooth(x) + 0.5 * np.maximum(np.log2(x[:, 0] * x[:, 1] / 60), 0))
    assert found.kind is SurfaceKind.KINK


def test_nothing_found_says_what_would_have_been() -> None:
    """A step of that size is found in four of five tries; at least in half of ten."""
    x = grid()
    none = search(x, smooth(x))
    assert none.kind is None
    assert none.detectable_effect is not None
    step = math.log1p(none.detectable_effect) * (x[:, 0] * x[:, 1] > 30)
    hits = [search(x, smooth(x) + step, seed=seed).kind is not None for seed in range(10)]
    assert sum(hits) >= 5


def test_the_same_cells_and_seed_give_the_same_answer_in_any_order() -> None:
    """Bit for bit, and for shuffled cells the same plane."""
    x = grid()
    y = smooth(x) + 0.4 * (x[:, 0] * x[:, 1] > 90)
    one, two = (find_surface(x, y, np.full(49, 0.03), rng=generator(1)) for _ in range(2))
    assert one == two
    order = generator(2).permutation(49)
    other = find_surface(x[order], y[order], np.full(49, 0.03), rng=generator(1))
    assert other.form is one.form
    assert other.level == pytest.approx(one.level)


def test_a_gain_is_what_least_squares_says() -> None:
    """Twice the gain in log likelihood of a column, by two fits with and without it."""
    x = grid(5)
    z, rng = np.log2(x), generator(3, "gain")
    y, se = rng.standard_normal(25), 0.5 + rng.random(25)
    (null, *_) = build_surface_nulls(z, y, se)
    column = (z.sum(axis=1) > 4).astype(float)
    scaled = (z - z.mean(axis=0)) / np.ptp(z, axis=0)
    basis = np.column_stack([np.ones(25), scaled, scaled**2, scaled[:, 0] * scaled[:, 1]])

    def left(design: np.ndarray) -> float:
        weighted = design / se[:, None]
        fit = weighted @ np.linalg.lstsq(weighted, y / se, rcond=None)[0]
        return float(((y / se - fit) ** 2).sum())

    expected = left(basis) - left(np.column_stack([basis, column]))
    assert null.gains(column[:, None])[0] == pytest.approx(expected)


def test_few_cells_and_lines_are_told() -> None:
    """Eleven cells; and cells that all lie on one line of the plane."""
    few = find_surface(grid(3), np.zeros(9), np.ones(9), rng=generator(1))
    assert few.kind is None
    assert few.caveats[0].kind is CaveatKind.SMALL_GRID
    line = np.column_stack([np.geomspace(1, 16, 20), np.full(20, 3.0)])
    assert find_surface(line, np.zeros(20), np.full(20, 0.1), rng=generator(1)).kind is None


def test_unbounded_cells_are_left_out_and_named() -> None:
    """Beside equal values everywhere, which are no break."""
    x = grid()
    y = np.zeros(49)
    y[3] = math.inf
    found = find_surface(x, y, np.full(49, 0.1), rng=generator(1))
    assert found.kind is None
    assert CaveatKind.CENSORED in {each.kind for each in found.caveats}


@pytest.mark.parametrize(
    ("x", "y", "se", "words"),
    [
        (np.ones((4, 1)), np.ones(4), np.ones(4), "2 or 3"),
        (np.ones((4, 2)), np.ones(3), np.ones(3), "allowed"),
        (np.ones((4, 2)), np.array([1, 2, 3, math.nan]), np.ones(4), "NaN"),
        (np.zeros((4, 2)), np.ones(4), np.ones(4), "above 0"),
        (np.ones((4, 2)), np.ones(4), np.zeros(4), "above 0"),
    ],
)
def test_what_is_no_surface_is_told(
    x: np.ndarray, y: np.ndarray, se: np.ndarray, words: str
) -> None:
    """What came and what is allowed."""
    with pytest.raises(ValueError, match=words):
        find_surface(x, y, se, rng=generator(1))
