import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from harness.stats.caveat import CaveatKind
from harness.stats.quantile_ci import binomial_ranks, n_for_finite, quantile_interval
from tests.oracles import stats_oracle


@pytest.mark.parametrize("m", [1, 5, 30, 100, 367, 368, 1000, 2500])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("confidence", [0.68, 0.95, 0.99])
def test_ranks_match_sums(m: int, q: float, confidence: float) -> None:
    """Ranks and their coverage are those of the binomial probabilities summed one by one."""
    lower, upper, coverage = binomial_ranks(m, q, confidence)
    want_lower, want_upper, want = stats_oracle.binomial_ranks(m, q, confidence)
    assert (lower, upper) == (want_lower, want_upper)
    assert coverage == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(
    ("q", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)]
)
def test_smallest_finite_sample(q: float, needed: int) -> None:
    """A two-sided 95 % interval of P99 is finite from 368 values on, and not before."""
    assert n_for_finite(q, 0.95) == needed
    values = np.arange(1.0, needed + 1)
    assert math.isfinite(quantile_interval(values, q).high)
    assert math.isinf(quantile_interval(values[:-1], q).high)


def test_open_bound_says_how_many() -> None:
    """An open bound carries the number of values needed at this correlation."""
    found = quantile_interval(np.arange(1.0, 513.0), 0.99, n_effective=256.0)
    assert found.high == math.inf
    assert found.n_needed == math.ceil(368 * 512 / 256)
    assert [c.kind for c in found.caveats] == [CaveatKind.OPEN_BOUND]
    assert "736" in found.caveats[0].text


def test_bounds_are_order_statistics() -> None:
    """Value and bounds are members of the sample at the exact ranks."""
    values = np.random.default_rng(1).lognormal(size=1000)
    found = quantile_interval(values, 0.99)
    ordered = np.sort(values)
    lower, upper, _ = stats_oracle.binomial_ranks(1000, 0.99, 0.95)
    assert (found.low, found.value, found.high) == (
        ordered[lower - 1],
        ordered[989],
        ordered[upper - 1],
    )
    assert found.actual_confidence >= 0.95
    assert found.n_needed is None


def test_fewer_effective_values_widen() -> None:
    """The interval on half the effective size contains the interval on the whole."""
    values = np.random.default_rng(2).lognormal(size=2000)
    whole, half = quantile_interval(values, 0.99), quantile_interval(values, 0.99, n_effective=1000)
    assert half.low <= whole.low
    assert half.high >= whole.high


def test_ties_are_told() -> None:
    """Equal values give a zero-width interval and a caveat."""
    found = quantile_interval(np.full(500, 3.0), 0.99)
    assert (found.low, found.value, found.high) == (3.0, 3.0, 3.0)
    assert [c.kind for c in found.caveats] == [CaveatKind.TIES]


def test_one_value() -> None:
    """One value is its own quantile: no bound for the median, a lower one for P99."""
    median, tail = quantile_interval([2.0], 0.5), quantile_interval([2.0], 0.99)
    assert (median.low, median.value, median.high) == (-math.inf, 2.0, math.inf)
    assert (tail.low, tail.value, tail.high) == (2.0, 2.0, math.inf)
    assert tail.n_needed == 368
    assert tail.actual_confidence == pytest.approx(0.99)


def test_requests_that_never_ended() -> None:
    """Infinite values count; a quantile among them is infinite and says so."""
    values = np.append(np.arange(1.0, 990.0), np.full(40, np.inf))
    found = quantile_interval(values, 0.99)
    assert found.value == math.inf
    assert CaveatKind.CENSORED in {c.kind for c in found.caveats}


@pytest.mark.parametrize(
    ("values", "q", "n_effective", "match"),
    [
        ([], 0.99, None, "at least one value"),
        ([[1.0]], 0.99, None, "shape"),
        ([1.0, math.nan], 0.99, None, "1 NaN among 2"),
        ([1.0], 1.0, None, "q: got 1.0"),
        ([1.0, 2.0], 0.5, 3.0, "n_effective: got 3.0"),
        ([1.0, 2.0], 0.5, 0.0, "n_effective: got 0.0"),
    ],
)
def test_refusals(values: list[float], q: float, n_effective: float | None, match: str) -> None:
    """Wrong input is refused with what came and what is allowed."""
    with pytest.raises(ValueError, match=match):
        quantile_interval(values, q, n_effective=n_effective)


def test_coverage_of_independent_values() -> None:
    """Of 2,000 intervals at nominal 95 % the share that holds passes a binomial test at 1e-4."""
    rng = np.random.default_rng(20261130)
    held = 0
    for _ in range(2000):
        found = quantile_interval(rng.random(1000), 0.99)
        held += found.low <= 0.99 <= found.high
    nominal = quantile_interval(np.arange(1000.0), 0.99).actual_confidence
    assert binom.ppf(5e-5, 2000, nominal) <= held <= binom.ppf(1 - 5e-5, 2000, nominal)


def test_speed() -> None:
    """An interval costs less than 3 sorts of a million values, and than 30 of 512 (best of 5)."""
    small, large = np.random.default_rng(3).random(512), np.random.default_rng(4).random(1_000_000)

    def ratio(values: np.typing.NDArray[np.float64]) -> float:
        times: list[list[float]] = [[], []]
        for _ in range(5):
            copy = values.copy()
            works: tuple[Callable[[], object], ...] = (
                lambda: quantile_interval(values, 0.99),
                copy.sort,
            )
            for kind, work in enumerate(works):
                start = time.process_time()
                work()
                times[kind].append(time.process_time() - start)
        return min(times[0]) / min(times[1])

    assert ratio(large) < 3
    assert ratio(small) < 30
