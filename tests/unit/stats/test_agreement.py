import numpy as np
import pytest
from scipy.special import ndtri

from harness.base.rng import generator
from harness.stats.agreement import r_hat


def starts(levels: tuple[float, ...], n: int = 500, seed: int = 1) -> list[np.ndarray]:
    rng = generator(seed, "starts")
    return [np.exp(0.35 * rng.standard_normal(n) + level) for level in levels]


def test_equal_starts_agree_and_one_that_settled_elsewhere_does_not() -> None:
    """Below 1.01 for one level, above 1.05 for one start 30 % away."""
    same = r_hat(starts((0.0,) * 4), 2.0)
    other = r_hat(starts((0.0, 0.0, 0.0, 0.26)), 2.0)
    assert same is not None
    assert same < 1.01
    assert other is not None
    assert other > 1.05


def test_it_is_the_formula_of_its_source() -> None:
    """Ranks, scores and variances one by one."""
    given = starts((0.0, 0.5), n=40)
    halves = [half for each in given for half in (each[:20], each[20:])]
    pooled = sorted(value for half in halves for value in half)
    scores = [[ndtri((pooled.index(v) + 1 - 0.375) / 80.25) for v in half] for half in halves]
    means = [sum(row) / 20 for row in scores]
    within = np.mean(
        [sum((v - m) ** 2 for v in r) / 19 for r, m in zip(scores, means, strict=True)]
    )
    between = sum((m - sum(means) / 4) ** 2 for m in means) / 3
    assert between > within / 20, "above what the indicator says, which is 1"
    assert r_hat(given, 1e9) == pytest.approx((19 / 20 + between / within) ** 0.5)


def test_tails_that_differ_are_seen_by_the_indicator() -> None:
    """The same middle, another share of slow ones."""
    rng = generator(2, "tails")
    given = [
        np.where(rng.random(2000) < share, 10.0, 1 + rng.random(2000))
        for share in (0.01, 0.01, 0.01, 0.10)
    ]
    found = r_hat(given, 5.0)
    assert found is not None
    assert found > 1.01


def test_a_level_that_moves_within_a_start_counts() -> None:
    """Split halves: two starts that drift alike do not agree with themselves."""
    drifting = [each * np.linspace(1, 2, each.size) for each in starts((0.0, 0.0))]
    found = r_hat(drifting, 3.0)
    assert found is not None
    assert found > 1.05


def test_nothing_is_said_without_two_starts_of_some_length() -> None:
    """None, not one."""
    assert r_hat(starts((0.0,)), 2.0) is None
    assert r_hat([], 2.0) is None
    assert r_hat(starts((0.0, 0.0), n=19), 2.0) is None


def test_equal_values_agree_and_unequal_constants_never_do() -> None:
    """No variance within is no reason to divide by zero."""
    assert r_hat([np.ones(40), np.ones(40)], 2.0) == 1.0
    assert r_hat([np.ones(40), np.full(40, 3.0)], 2.0) == np.inf
