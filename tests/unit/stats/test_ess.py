import numpy as np
import pytest
from scipy.stats import binom

from harness.stats.bed.marginals import copula
from harness.stats.bed.task import score
from harness.stats.bed.tasks import TASKS
from harness.stats.ess import indicator_ess
from tests.oracles import stats_oracle


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("sizes", [[512], [128, 128, 128, 128], [50, 200, 7, 100]])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_matches_pair_by_pair(phi: float, sizes: list[int], q: float) -> None:
    """The autocorrelation time is the one counted pair by pair, never across a border."""
    rng = np.random.default_rng(len(sizes))
    parts = [copula(size, phi, rng) for size in sizes]
    want = stats_oracle.autocorrelation_time(parts, q)
    assert indicator_ess(parts, q).tau == pytest.approx(want, rel=1e-9)


def test_independent_values_keep_their_worth() -> None:
    """Four segments of 128 independent values are worth at least 88 % of them on average."""
    rng = np.random.default_rng(5)
    shares = [indicator_ess(list(rng.random((4, 128))), 0.99).n_effective / 512 for _ in range(400)]
    assert 0.88 <= float(np.mean(shares)) <= 1.0


def test_correlation_costs_worth() -> None:
    """The stronger the correlation, the fewer independent values."""
    rng = np.random.default_rng(6)
    worth = [indicator_ess([copula(4000, phi, rng)], 0.99).n_effective for phi in (0, 0.6, 0.9)]
    assert worth[0] > worth[1] > worth[2]


def test_indicator_has_thirty_exceedances() -> None:
    """With 512 values the indicator is that of the quantile with thirty above it."""
    assert indicator_ess([np.arange(512.0)], 0.99).indicator_q == pytest.approx(1 - 30 / 512)
    assert indicator_ess([np.arange(9000.0)], 0.99).indicator_q == 0.99


def test_degenerate_segments() -> None:
    """Equal values, one value and two values count as independent."""
    for parts in ([np.ones(100)], [np.ones(1)], [np.array([1.0, 2.0])]):
        size = indicator_ess(parts, 0.99)
        assert size.n_effective == size.n


@pytest.mark.parametrize("parts", [[], [[]], [[1.0], [np.nan]]])
def test_refusals(parts: list[list[float]]) -> None:
    """No segment, an empty one and NaN are refused."""
    with pytest.raises(ValueError, match="segment"):
        indicator_ess(parts, 0.99)


@pytest.mark.parametrize(("marginal", "phi"), [("log-normal 0.6", 0.9), ("slow 1.5 % x 6", 0.6)])
def test_coverage_of_correlated_values(marginal: str, phi: float) -> None:
    """Rank intervals on the effective size hold at least 93 % at n = 1,000 (alpha 1e-3)."""
    held, n = score(TASKS["intervals"], (marginal, phi, 1000), range(300))["tailbreak"]
    assert n == 300
    assert held >= binom.ppf(1e-3, 300, 0.93)
