import math

import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.confidence_sequence import (
    n_for_finite_sequence,
    prior_size,
    sequential_interval,
    sequential_ranks,
)
from harness.stats.quantile_ci import binomial_ranks
from tests.oracles import stats_oracle

Q, CONFIDENCE = 0.99, 0.95


@pytest.mark.parametrize("m", [1, 7, 200, 760, 3000])
@pytest.mark.parametrize("r", [50.0, 500.0])
def test_ranks_are_those_of_the_product(m: int, r: float) -> None:
    """The mixture's predictive probabilities multiplied one value at a time give the same ranks."""
    assert sequential_ranks(m, Q, CONFIDENCE, r) == stats_oracle.sequential_ranks(
        m, Q, CONFIDENCE, r
    )


@pytest.mark.parametrize(("r", "n"), [(50.0, 410), (200.0, 567), (500.0, 760)])
def test_a_finite_bound_needs_this_many(r: float, n: int) -> None:
    """One fewer leaves the upper bound open."""
    assert n_for_finite_sequence(Q, CONFIDENCE, r) == n
    assert sequential_ranks(n, Q, CONFIDENCE, r)[1] <= n
    assert sequential_ranks(n - 1, Q, CONFIDENCE, r)[1] == n


def test_it_is_wider_than_an_interval_for_one_look() -> None:
    """What looking often costs, at every size; never more than three times the distance."""
    for m in (1000, 4000, 16000):
        low, high = sequential_ranks(m, Q, CONFIDENCE, prior_size(m))
        once_low, once_high, _ = binomial_ranks(m, Q, CONFIDENCE)
        assert low < once_low
        assert high > once_high
        assert high - low < 3 * (once_high - once_low)


def test_it_is_seldom_ever_wrong_over_sixty_looks() -> None:
    """At most 5 % of streams have a look whose interval misses; one look intervals miss in 20 %.

    2,000 streams, sizes 100 to 20,000 in geometric steps. Were the chance 5 %, more than 132 wrong
    streams would come with a probability of 1e-3.
    """
    looks = np.unique(np.geomspace(100, 20_000, 60).astype(int))
    rng = generator(1, "looks")
    steps = np.diff(looks, prepend=0)
    below = np.cumsum(rng.binomial(steps, Q, size=(2000, looks.size)), axis=1)
    r = prior_size(4000)
    ranks = np.array([sequential_ranks(int(m), Q, CONFIDENCE, r) for m in looks])
    once = np.array([binomial_ranks(int(m), Q, CONFIDENCE)[:2] for m in looks])

    def n_ever_wrong(bounds: np.ndarray) -> int:
        return int(((below < bounds[:, 0]) | (below >= bounds[:, 1])).any(axis=1).sum())

    assert n_ever_wrong(ranks) <= 132
    assert n_ever_wrong(once) > 400


def test_bounds_are_order_statistics_of_the_values() -> None:
    """Ranks of the effective size are carried outwards to all values."""
    values = np.arange(1.0, 4001.0)
    found = sequential_interval(values, Q, confidence=CONFIDENCE, n_effective=4000, planned=4000)
    low, high = sequential_ranks(4000, Q, CONFIDENCE, prior_size(4000))
    assert (found.low, found.value, found.high) == (low, 3960.0, high)
    fewer = sequential_interval(values, Q, confidence=CONFIDENCE, n_effective=1500, planned=4000)
    assert fewer.low < found.low
    assert fewer.high > found.high


def test_too_few_values_leave_the_bound_open() -> None:
    """With the number that would close it."""
    found = sequential_interval(
        np.arange(1.0, 301.0), Q, confidence=CONFIDENCE, n_effective=150, planned=400
    )
    assert math.isinf(found.high)
    assert found.n_needed == 2 * n_for_finite_sequence(Q, CONFIDENCE, prior_size(400))


@pytest.mark.parametrize("wrong", [{"q": 1.0}, {"confidence": 0.0}, {"n_effective": 11.0}])
def test_what_is_out_of_range_is_told(wrong: dict[str, float]) -> None:
    """Name, what came, what is allowed."""
    values = {"q": Q, "confidence": CONFIDENCE, "n_effective": 10.0, "planned": 10.0, **wrong}
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: got .*allowed"):
        sequential_interval(np.ones(10), **values)
