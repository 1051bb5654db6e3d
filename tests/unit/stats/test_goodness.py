import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import kstest, power_divergence

from harness.base.rng import generator
from harness.stats import goodness

TAIL = np.append(0.9, np.full(50, 0.1 / 50))


def test_the_statistic_is_scipys_over_williams_correction() -> None:
    """With no bin to merge it is the G statistic; the divergence is KL less its bias."""
    counts, wanted = np.array([40, 35, 25]), np.array([0.5, 0.3, 0.2])
    found = goodness.judge_draws(counts, wanted)
    g = power_divergence(counts, wanted * 100, lambda_="log-likelihood").statistic
    correction = 1 + ((1 / wanted).sum() - 1) / (6 * 100 * 2)
    assert found.statistic == pytest.approx(g / correction)
    assert (found.freedom, found.n) == (2, 100)
    raw = rel_entr(counts / 100, wanted).sum() / correction
    assert found.divergence == pytest.approx(raw - 2 / 200)


def test_p_values_are_uniform_when_nothing_differs() -> None:
    """2,000 repeats of each test at n = 400, rare bins among them: no p-value is too common."""
    rng = generator(1, "goodness")
    fits, sames = [], []
    for _ in range(2000):
        one, two = rng.multinomial(400, TAIL), rng.multinomial(900, TAIL)
        fits.append(goodness.judge_draws(two, TAIL).p_value)
        sames.append(goodness.judge_same(one, two).p_value)
    for values in (fits, sames):
        assert kstest(values, "uniform").statistic < 0.06  # counts are whole numbers
        assert 0.02 < np.mean(np.array(values) < 0.05) < 0.08


def test_a_bare_threshold_would_be_wrong() -> None:
    """The plug-in divergence of right draws grows with the bins; what is reported does not."""
    rng = generator(2, "goodness")
    flat = np.full(500, 1 / 500)
    found = [goodness.judge_draws(rng.multinomial(10_000, flat), flat) for _ in range(200)]
    plug_in = np.mean([each.statistic / 20_000 for each in found])
    assert plug_in == pytest.approx(499 / 20_000, rel=0.03)
    assert abs(np.mean([each.divergence for each in found])) < 0.0005


def test_a_lost_tail_is_seen() -> None:
    """A sampler that never draws a tenth of the mass fails both tests."""
    rng = generator(3, "goodness")
    cut = np.where(np.arange(51) > 25, 0, TAIL)
    wrong = rng.multinomial(4000, cut / cut.sum())
    assert goodness.judge_draws(wrong, TAIL).p_value < 1e-6
    assert goodness.judge_same(wrong, rng.multinomial(4000, TAIL)).p_value < 1e-6


def test_what_cannot_be_drawn_is_never_excused() -> None:
    """One draw outside the support has p = 0, alone and folded with good tests."""
    outside = goodness.judge_draws([99, 1], [1.0, 0.0])
    assert outside.p_value == 0
    good = goodness.judge_draws([50, 50], [0.5, 0.5])
    assert goodness.together([good, outside]).p_value == 0
    assert goodness.together([good, good]).freedom == 2


def test_one_outcome_says_nothing() -> None:
    """With a single possible outcome, or too few draws for two bins, p is 1."""
    assert goodness.judge_draws([7, 0], [1.0, 0.0]).p_value == 1
    assert goodness.judge_draws([1, 2], [0.5, 0.5]).p_value == 1
    assert goodness.judge_same([0, 0], [3, 4]).p_value == 1
    assert goodness.judge_same([3, 0], [4, 0]).p_value == 1


def test_holm() -> None:
    """The smallest p is multiplied by all, the next by one less; the order is kept."""
    assert goodness.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert goodness.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert goodness.holm([]) == []


@pytest.mark.parametrize("bad", [[0.5, 0.4], [1.5, -0.5], [1.0]])
def test_bad_probabilities_are_refused(bad: list[float]) -> None:
    """Sums other than 1, negatives and another length are errors."""
    with pytest.raises(ValueError, match="allowed"):
        goodness.judge_draws([1, 2], bad)
