import numpy as np
import pytest

from harness.stats.gradual import steep_rise

Z = np.arange(9.0)
SE = np.full(9, 0.02)


def test_extent_of_a_steep_part() -> None:
    """The steep part reaches over the gaps that are steep, with the rise between its ends."""
    slopes = np.array([0.2, 0.2, 0.2, 0.2, 2.0, 2.0, 0.2, 0.2]) * np.log(2)
    y = np.concatenate([[0], np.cumsum(slopes)])
    rise = steep_rise(y, Z, SE, 0.95)
    assert rise is not None
    assert (rise.low, rise.high) == (4, 6)
    assert rise.effect == pytest.approx(4 * np.log(2))
    assert rise.effect_low < rise.effect < rise.effect_high


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_constant_slope_has_no_steep_part(slope: float) -> None:
    """A power law has no part steeper than the rest."""
    assert steep_rise(slope * np.log(2) * Z, Z, SE, 0.95) is None


def test_noise_has_no_steep_part() -> None:
    """Of 400 noisy proportional curves at most 5 % show a steep part (alpha 1e-3)."""
    rng = np.random.default_rng(28)
    rises = [
        steep_rise(np.log(2) * Z + 0.1 * rng.standard_normal(9), Z, SE * 5, 0.95)
        for _ in range(400)
    ]
    assert sum(r is not None for r in rises) <= 34
