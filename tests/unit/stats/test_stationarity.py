import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.bed.marginals import copula
from harness.stats.stationarity import Trend, stationarity, warm_up

Q = 0.99
SHAPES = [(4, 250), (8, 500), (1, 2000)]


def segments(seed: int, n: int, size: int, phi: float) -> list[np.ndarray]:
    rng = generator(seed, "segments")
    return [np.exp(0.6 * copula(size, phi, rng)) for _ in range(n)]


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_chance_is_no_trend(phi: float) -> None:
    """300 cells without one, bunched or not: at a level of 1e-3 each way, 5 at the very most."""
    found = [
        stationarity(segments(100 * n + size, n, size, phi), Q)
        for n, size in SHAPES
        for _ in range(1)
    ]
    many = [stationarity(segments(seed, 4, 250, phi), Q) for seed in range(300)]
    assert sum(each.inside is not Trend.NONE for each in [*found, *many]) <= 5
    assert sum(each.across is not Trend.NONE for each in [*found, *many]) <= 5


def test_a_queue_that_grows_is_a_trend_within_segments() -> None:
    """Each segment begins anew; only the place within it counts."""
    parts = [part * np.linspace(1, 3, part.size) for part in segments(1, 6, 500, 0.3)]
    found = stationarity(parts, Q)
    assert found.inside is Trend.UP
    assert found.ratio_inside > 2
    assert stationarity([part[::-1] for part in parts], Q).inside is Trend.DOWN


def test_a_drift_is_a_trend_across_segments_only() -> None:
    """The last segment slower than the first, each one even."""
    parts = [part * (1 + 0.25 * i) for i, part in enumerate(segments(2, 6, 500, 0.3))]
    found = stationarity(parts, Q)
    assert found.across is Trend.UP
    assert found.inside is Trend.NONE
    assert stationarity(parts[::-1], Q).across is Trend.DOWN


def test_a_trend_too_small_to_matter_is_none() -> None:
    """With enough values any drift is certain; below half as many again it is not told."""
    rng = generator(3, "many")
    hit = rng.random(1_000_000) < np.linspace(0.009, 0.0115, 1_000_000)
    found = stationarity([hit + 0.5 * rng.random(1_000_000)], Q)
    assert found.p_across < 1e-6
    assert found.across is Trend.NONE


def test_levels_alone_make_no_trend_within() -> None:
    """Segments at other levels, in no order, are even within."""
    levels = (1.0, 2.0, 0.7, 1.5, 2.2, 0.8)
    parts = [part * level for part, level in zip(segments(4, 6, 400, 0.3), levels, strict=True)]
    assert stationarity(parts, Q).inside is Trend.NONE


def test_a_slow_begin_is_cut_and_an_even_one_is_not() -> None:
    """Forty slow values of 400; without them at most one segment in fifty loses anything."""
    rng = generator(5, "warm")
    slow = np.concatenate([4 + rng.random(40), rng.random(360)])
    assert 35 <= warm_up(slow, 0.95) <= 45
    even = [warm_up(rng.random(400), 0.95) for _ in range(200)]
    assert np.count_nonzero(even) <= 12


def test_what_is_long_is_no_warm_up() -> None:
    """At most a quarter is ever cut."""
    assert warm_up(np.concatenate([np.full(300, 9.0), np.zeros(100)]), 1.0) <= 100


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [3.0] * 50, [1.0, np.inf] * 20])
def test_little_or_equal_values_show_no_trend(values: list[float]) -> None:
    """An answer, not an error."""
    found = stationarity([np.array(values)], Q)
    assert (found.inside, found.across) == (Trend.NONE, Trend.NONE)
    assert warm_up(np.array(values), 1.0) == 0
