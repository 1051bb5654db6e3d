import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.quantile_ci import quantile_interval

SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=600)
QUANTILES = st.sampled_from([0.1, 0.5, 0.9, 0.99])


@given(SAMPLES, QUANTILES)
def test_monotone_transform_moves_with_it(values: list[float], q: float) -> None:
    """The interval of f(x) is f of the interval of x for increasing f."""
    moved = np.arctan(np.array(values) / 1e3) + 7
    image = {**dict(zip(values, moved.tolist(), strict=True)), math.inf: math.inf}
    image[-math.inf] = -math.inf
    plain, found = quantile_interval(values, q), quantile_interval(moved, q)
    assert (found.low, found.value, found.high) == (
        image[plain.low],
        image[plain.value],
        image[plain.high],
    )


@given(SAMPLES, QUANTILES, st.integers(0, 2**32))
def test_order_does_not_matter(values: list[float], q: float, seed: int) -> None:
    """Shuffled values give the same result."""
    mixed = np.random.default_rng(seed).permutation(values)
    assert quantile_interval(mixed, q) == quantile_interval(values, q)


@given(SAMPLES, QUANTILES, st.floats(0.01, 1.0))
def test_bounds_enclose_and_belong(values: list[float], q: float, share: float) -> None:
    """Bounds enclose the value; each is a member of the sample or infinite, never between."""
    found = quantile_interval(values, q, n_effective=max(1e-6, share * len(values)))
    assert found.low <= found.value <= found.high
    members = {*values, math.inf, -math.inf}
    assert {found.low, found.value, found.high} <= members
    is_open = math.isinf(found.low) or math.isinf(found.high)
    assert (found.n_needed is not None) == is_open
