import math

import numpy as np
import pytest

from harness.stats.bed.ratios import Case, measure
from harness.stats.ratio import quantile_ratios


def cells(n_cells: int, seed: int, times: float = 1.0, n: int = 600) -> list[list[np.ndarray]]:
    """Cells of four segments of log-normal requests."""
    rng = np.random.default_rng(seed)
    return [list(times * rng.lognormal(0, 0.2, (4, n // 4))) for _ in range(n_cells)]


def test_a_slowdown_shifts_ratio_and_bounds() -> None:
    """The candidate times two: ratio and both bounds double exactly."""
    plain = quantile_ratios(cells(3, 1), cells(3, 2), 0.99, 0.95, 3)
    twice = quantile_ratios(cells(3, 1), cells(3, 2, times=2.0), 0.99, 0.95, 3)
    for one, two in zip(plain, twice, strict=True):
        assert one.ratio is not None
        assert two.ratio == pytest.approx(2 * one.ratio)
        assert (two.low, two.high) == pytest.approx((2 * one.low, 2 * one.high))
        assert one.low < one.ratio < one.high


def test_more_intervals_together_are_wider() -> None:
    """Bonferroni: 50 intervals that hold at once are wider than one, by the normal's quantiles."""
    (one,) = quantile_ratios(cells(1, 1), cells(1, 2), 0.99, 0.95, 1)
    (many,) = quantile_ratios(cells(1, 1), cells(1, 2), 0.99, 0.95, 50)
    assert one.z == pytest.approx(1.96, abs=0.001)
    assert many.z == pytest.approx(3.291, abs=0.001)
    assert many.low < one.low < one.high < many.high


def test_intervals_hold_together() -> None:
    """Eight cells, nothing changed: in 200 pairs of runs all eight hold 1 in at least 93 %."""
    found = measure(Case(law="log-normal 0.1"), 200)
    held = ((found.low <= 1) & (found.high >= 1)).all(axis=1)
    assert int(held.sum()) >= 186


def test_a_slowdown_of_the_size_stated_is_seen() -> None:
    """One cell slower by what a pair of runs says it would have seen: at least 85 % of 200."""
    found = measure(Case(law="log-normal 0.1"), 200)
    assert found.seen_as_stated() >= 170
    assert 1.1 < float(np.median(found.stated)) < 1.5


def test_what_never_ended_has_no_ratio() -> None:
    """An infinite quantile on one side: no ratio, open on both sides, no NaN."""
    never = [[np.full(40, math.inf), np.full(40, math.inf)]]
    (found,) = quantile_ratios(cells(1, 1), never, 0.5, 0.95, 1)
    assert (found.ratio, found.low, found.high) == (None, 0.0, math.inf)


def test_unequal_sides_are_refused() -> None:
    """Two cells against three: said with both numbers."""
    with pytest.raises(ValueError, match="got 2 and 3"):
        quantile_ratios(cells(2, 1), cells(3, 1), 0.99, 0.95, 3)


def test_bed_counts_what_is_above_the_limit() -> None:
    """Everything a hundred times slower is an alarm in every pair; what is seen grows with size."""
    found = measure(Case(law="log-normal 0.1", n=128), 5)
    assert found.low.shape == found.high.shape == (5, 8)
    assert found.alarms(100.0) == found.seen(100.0) == 5
    assert found.alarms(1.0) <= found.alarms(1.5) <= found.alarms(100.0)
    assert found.passed(limit=100.0) == 5
    assert found.passed(limit=1.0) == 0
