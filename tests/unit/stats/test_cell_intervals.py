"""Several quantiles out of one sort are what each gives alone."""

import numpy as np
import pytest

from harness.stats.bed.marginals import copula
from harness.stats.cell_intervals import cell_intervals
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import quantile_interval

QUANTILES = (0.5, 0.9, 0.99)


@pytest.mark.parametrize("sizes", [[1], [2], [40, 3], [500, 20, 900], [2000]])
@pytest.mark.parametrize("kind", ["plain", "ties", "never ended"])
def test_each_quantile_as_alone(sizes: list[int], kind: str) -> None:
    """Values, bounds, effective sizes and caveats equal those of each quantile on its own."""
    rng = np.random.default_rng(len(sizes))
    parts = [np.exp(copula(size, 0.8, rng)) for size in sizes]
    if kind == "ties":
        parts = [np.round(part) for part in parts]
    if kind == "never ended":
        parts = [np.where(part > 6, np.inf, part) for part in parts]
    for q, found in zip(QUANTILES, cell_intervals(parts, QUANTILES, 0.95), strict=True):
        size = indicator_ess(parts, q).n_effective
        assert found == quantile_interval(np.concatenate(parts), q, 0.95, size)


def test_order_of_time_matters_for_the_width_only() -> None:
    """Shuffled, the same values give the same quantile with a narrower interval."""
    values = np.exp(copula(20_000, 0.9, np.random.default_rng(2)))
    (clustered,) = cell_intervals([values], [0.99], 0.95)
    (shuffled,) = cell_intervals([np.random.default_rng(3).permutation(values)], [0.99], 0.95)
    assert clustered.value == shuffled.value
    assert clustered.high - clustered.low > 1.5 * (shuffled.high - shuffled.low)


def test_more_confidence_is_no_narrower() -> None:
    """The interval at 99 % holds the one at 90 %."""
    values = np.random.default_rng(4).exponential(size=5000)
    for wide, narrow in zip(
        cell_intervals([values], QUANTILES, 0.99), cell_intervals([values], QUANTILES, 0.9),
        strict=True,
    ):  # fmt: skip
        assert wide.low <= narrow.low <= narrow.high <= wide.high


@pytest.mark.parametrize("parts", [[], [[]], [[1.0], [np.nan]]])
def test_refusals(parts: list[list[float]]) -> None:
    """No segment, an empty one and NaN are refused."""
    with pytest.raises(ValueError, match="segment"):
        cell_intervals(parts, QUANTILES, 0.95)


def test_quantile_out_of_range() -> None:
    """A quantile that is none is refused by its name."""
    with pytest.raises(ValueError, match="q: got"):
        cell_intervals([[1.0, 2.0]], [1.0], 0.95)
