import math

import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.refine import N_INSIDE, points_between, suspect_gap

GRID = [64.0, 96.0, 144.0, 216.0, 324.0, 486.0]


def whole(value: float) -> float:
    return float(round(value))


def test_points_lie_inside_and_evenly_in_octaves() -> None:
    """Three of them where there is room for more."""
    found = points_between(GRID, 216, 324, within_octaves=0.01, snap=float)
    assert len(found) == N_INSIDE
    steps = np.diff(np.log2([216, *found, 324]))
    assert steps == pytest.approx([math.log2(1.5) / 4] * 4)


def test_no_more_than_it_takes_and_none_once_it_is_short() -> None:
    """0.58 octaves to within 0.3: one point; to within 0.6: none."""
    assert len(points_between(GRID, 216, 324, within_octaves=0.3, snap=float)) == 1
    assert points_between(GRID, 216, 324, within_octaves=0.6, snap=float) == []


def test_an_interval_is_taken_out_to_the_cells_that_hold_it() -> None:
    """A kink's place between cells; one over two gaps leaves out the cell in its middle."""
    inside = points_between(GRID, 230, 300, within_octaves=0.1, snap=float)
    assert inside == points_between(GRID, 216, 324, within_octaves=0.1, snap=float)
    wide = points_between(GRID, 144, 324, within_octaves=0.01, snap=whole)
    assert 216 not in wide
    assert all(144 < each < 324 for each in wide)


def test_an_axis_of_whole_numbers_ends_at_neighbours() -> None:
    """Nothing between 7 and 8, one value between 7 and 9."""
    assert points_between([5, 6, 7, 8, 9], 7, 8, within_octaves=0.01, snap=whole) == []
    assert points_between([5, 6, 7, 9, 11], 7, 9, within_octaves=0.01, snap=whole) == [8.0]


def test_places_beyond_the_grid_stay_on_it() -> None:
    """An interval open to the edge is searched up to the last cell."""
    found = points_between(GRID, 400, 9999, within_octaves=0.1, snap=whole)
    assert found
    assert all(324 < each < 486 for each in found)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (2, 1), (1, math.inf), (math.nan, 1)])
def test_no_stretch_is_told(low: float, high: float) -> None:
    """What came and what is allowed."""
    with pytest.raises(ValueError, match="low and high: got"):
        points_between(GRID, low, high, within_octaves=0.1, snap=float)


def test_the_suspect_is_where_the_jump_is() -> None:
    """In 45 of 50 tries with a jump of five standard errors, on a curve that bends."""
    x = np.geomspace(64, 1024, 9)
    hits = 0
    for seed in range(50):
        rng = generator(seed, "suspect")
        y = np.log(1 + x / 300) + 0.25 * (x > 260) + 0.05 * rng.standard_normal(9)
        low, high = suspect_gap(x, y, np.full(9, 0.05)) or (0, 0)
        hits += low < 260 < high
    assert hits >= 45


def test_small_grids_have_no_suspect() -> None:
    """Four cells, or as many with a quantile."""
    assert suspect_gap([1, 2, 4, 8], [0.0] * 4, [0.1] * 4) is None
    infinite = [0.0, 0.0, math.inf, math.inf, 0.0]
    assert suspect_gap([1, 2, 4, 8, 16], infinite, [0.1] * 5) is None
