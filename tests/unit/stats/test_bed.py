import numpy as np
import pytest

from harness.stats.bed import attribution, breaks, errors, limits


@pytest.mark.parametrize("law", errors.LAWS)
def test_true_log_is_the_quantile_of_the_draws(law: str) -> None:
    """P99 of 400 000 drawn requests is the stated one, within 2 %."""
    values = errors.draw(law, 400_000, np.random.default_rng(1))
    assert float(np.log(np.quantile(values, 0.99))) == pytest.approx(errors.true_log(law), abs=0.02)


def test_own_errors_are_too_small_and_given_ones_wider() -> None:
    """At 100 requests the order statistic's own error falls short; the given one is wider."""
    found = errors.measure("log-normal 0.35", 100, 60)
    assert float(found.own.std()) > 1.5
    assert (np.abs(found.given) < np.abs(found.own)).all()
    assert errors.held(np.array([0.0, -1.9, 2.0, 3.0])).startswith("50 ")


def test_moving_cells_are_counted_all() -> None:
    """Each axis gives eight errors, of a size that their standard error explains."""
    scores = errors.moving(0.05, 5)
    assert scores.shape == (40,)
    assert 0.5 < float(scores.std()) < 2


@pytest.mark.parametrize("case", attribution.CASES, ids=lambda case: case.name)
def test_planted_components_are_slower_by_what_is_said(case: attribution.Case) -> None:
    """Above the break the means of the slower components rise by `by`, those of others by none."""
    rng = np.random.default_rng(2)
    below = attribution.requests(case, 40_000, rng, above=False).mean(axis=0)
    above = attribution.requests(case, 40_000, rng, above=True).mean(axis=0)
    want = [case.by * (c in case.slower) for c in range(len(case.means))]
    np.testing.assert_allclose(above - below, want, atol=0.6)


def test_the_slow_component_is_counted_as_named() -> None:
    """A rise that one component carries alone is counted under its name, never under another."""
    tally = attribution.measure(attribution.CASES[0], 512, 8)
    assert (tally.n, tally.first, tally.named, tally.wrong) == (8, 8, 8, 0)


def test_errors_stated_at_a_third_cost_false_alarms() -> None:
    """Counts stay within the searches made; the same seed gives the same count."""
    count = limits.understated(3.0, 7, 1)
    assert 0 <= count <= 8
    assert limits.understated(3.0, 7, 1) == count


def test_the_detectable_jump_is_planted() -> None:
    """A search of a straight cost reports a size, and jumps of that size are found again."""
    found, planted = limits.detected("linear", 9, 4)
    assert planted == 4
    assert 2 <= found <= 4


def test_requests_carry_the_error_said() -> None:
    """Cells of 4 x 128 requests have an error of 5 to 9 %."""
    tally, error = breaks.from_requests(1.0, 7, 1)
    assert tally.n == 1
    assert 0.05 < error < 0.09
