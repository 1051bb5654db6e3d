import numpy as np
import pytest
from scipy import stats

from harness.stats.correlation import pearson


def test_r_and_its_interval_are_fishers() -> None:
    """Against scipy's Pearson and its Fisher interval, on values without autocorrelation."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=40)
    y = 0.6 * x + rng.normal(size=40)
    theirs = stats.pearsonr(x, y)
    found = pearson(x, y)
    assert found.r == pytest.approx(theirs.statistic)
    exact = theirs.confidence_interval(0.95)
    scale = np.sqrt((found.n_effective - 3) / (40 - 3))
    for ours, bound in ((found.low, exact.low), (found.high, exact.high)):
        assert ours is not None
        assert found.r is not None
        assert (np.arctanh(ours) - np.arctanh(found.r)) * scale == pytest.approx(
            np.arctanh(bound) - np.arctanh(found.r)
        )


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("carry", [0.0, 0.6])
def test_the_interval_holds_its_confidence(rho: float, carry: float) -> None:
    """Of 600 series 95 % of the intervals hold the true r, with values that carry over as well."""
    rng = np.random.default_rng(8)
    n_inside, n_series, n = 0, 600, 60
    for _ in range(n_series):
        noise = rng.normal(size=(2, n))
        noise[1] = rho * noise[0] + np.sqrt(1 - rho**2) * noise[1]
        for i in range(1, n):
            noise[:, i] = carry * noise[:, i - 1] + np.sqrt(1 - carry**2) * noise[:, i]
        found = pearson(noise[0], noise[1])
        assert found.low is not None
        assert found.high is not None
        n_inside += found.low <= rho <= found.high
    assert 0.92 < n_inside / n_series < 0.98


def test_settings_thrown_together_would_lie() -> None:
    """By hand: inside each setting r is -1, over both together it is near 1."""
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3.0, 2.0, 1.0])
    assert pearson(x, y).r == -1.0
    both = pearson(np.concatenate([x, x + 100]), np.concatenate([y, y + 100]))
    assert both.r is not None
    assert both.r > 0.99


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2, 3], [1, 2, 4], "3 values; 4 are needed"),
        ([], [], "0 values; 4 are needed"),
        ([5, 5, 5, 5], [1, 2, 3, 4], "the first series does not vary"),
        ([1, 2, 3, 4], [0.1, 0.1, 0.1, 0.1], "the second series does not vary"),
        ([1, 2, 3, np.inf], [1, 2, 3, 4], "no finite numbers"),
        ([1, 2, 3, np.nan], [1, 2, 3, 4], "no finite numbers"),
    ],
)
def test_where_r_is_undefined_there_is_a_reason(
    x: list[float], y: list[float], reason: str
) -> None:
    """Too few, no variance, no numbers: null and why, never zero."""
    found = pearson(list(x), list(y))
    assert found.r is None
    assert found.low is None
    assert found.high is None
    assert reason in found.reason


def test_values_that_only_alternate_exclude_nothing() -> None:
    """Six of them, in step, are worth one independent pair: open bounds."""
    found = pearson([0, 1, 0, 1, 0, 1], [2, 3, 2, 3, 2, 3])
    assert found.r == pytest.approx(1.0)
    assert found.n_effective == pytest.approx(6 * (1 - 25 / 36) / (1 + 25 / 36))
    assert (found.low, found.high) == (-1.0, 1.0)


def test_huge_values_do_not_overflow() -> None:
    """Squares of 1e300 are infinite; r is not."""
    found = pearson([1e300, -1e300, 2e300, -1.5e300, 0], [1, -1, 2, -1.5, 0])
    assert found.r == pytest.approx(1.0)
    assert found.high is not None
    assert found.high <= 1


def test_series_of_other_lengths_are_refused() -> None:
    """Pairs need partners."""
    with pytest.raises(ValueError, match="allowed two of"):
        pearson([1, 2, 3, 4], [1, 2, 3])
