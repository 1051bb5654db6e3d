import numpy as np
import pytest

from harness.base.rng import generator
from harness.stats.bed.marginals import MARGINALS, copula, correlation_time, true_quantile
from harness.stats.bed.rows import STALL_S, Bed, Drift, draw_rows


@pytest.mark.parametrize("name", MARGINALS)
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_a_law_has_the_quantile_that_is_stated(name: str, q: float) -> None:
    """Of 400,000 draws a share q lies at or below the true quantile, within 5 standard errors."""
    values = MARGINALS[name](copula(400_000, 0.0, np.random.default_rng(3)))
    truth = true_quantile(MARGINALS[name], q)
    room = 5 * np.sqrt(q * (1 - q) / values.size)
    assert (values < truth).mean() - room <= q <= (values <= truth).mean() + room


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_neighbours_are_correlated_as_stated(phi: float) -> None:
    """Autocorrelation at lag k is phi^k, and the variance one."""
    z = copula(400_000, phi, np.random.default_rng(4))
    assert float(z.var()) == pytest.approx(1, abs=0.03)
    for lag in (1, 2, 5):
        found = float(np.corrcoef(z[:-lag], z[lag:])[0, 1])
        assert found == pytest.approx(phi**lag, abs=0.02)


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_correlation_time_is_that_of_the_share_of_slow_values(phi: float) -> None:
    """The variance of the share above P99, over 2,000 times 4,000, is tau times the free one."""
    z = copula(8_000_000, phi, np.random.default_rng(5)).reshape(2000, 4000)
    truth = true_quantile(lambda v: v, 0.99)
    found = float((z > truth).mean(axis=1).var()) * 4000 / (0.01 * 0.99)
    assert found == pytest.approx(correlation_time(phi, 0.99), rel=0.15)


def test_parts_add_up_to_the_latency() -> None:
    """Client, queue, prefill and decode fill the time from plan to end, with stalls and pauses."""
    bed = Bed(n_starts=2, n_per_start=4000, has_stalls=True, has_client_lag=True, drift=Drift.SINE)
    rows = draw_rows(bed, generator(1, "rows"))
    np.testing.assert_allclose(sum(rows.parts.values()), rows.latency, atol=1e-9)
    assert (rows.t_sched <= rows.t_send).all()
    assert (rows.t_send < rows.t_first).all()
    assert (rows.t_first < rows.t_done).all()
    assert 0 < (rows.parts["client"] > 0).mean() < 0.03
    assert rows.parts["queue"].max() > STALL_S[0]


def test_starts_scatter_by_what_is_planted() -> None:
    """Medians of 300 starts have the planted sd of log latency, within 15 %."""
    bed = Bed(marginal="log-normal 0.35", n_starts=300, n_per_start=2000, start_sd=0.1)
    latency = draw_rows(bed, generator(2, "rows")).latency.reshape(300, 2000)
    assert float(np.log(np.median(latency, axis=1)).std()) == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize("drift", [Drift.LINEAR, Drift.STICKY_HOST])
def test_drift_moves_the_level(drift: Drift) -> None:
    """Against the same draws without drift: 6 % up from begin to end, or a level a host."""
    bed = Bed(n_starts=40, n_per_start=200, drift=drift)
    moved = draw_rows(bed, generator(3, "rows"))
    still = draw_rows(Bed(n_starts=40, n_per_start=200, drift=Drift.LINEAR), generator(3, "rows"))
    if drift is Drift.LINEAR:
        bare = draw_rows(Bed(n_starts=40, n_per_start=200), generator(3, "rows"))
        ratio = moved.latency / bare.latency
        assert float(ratio[0]) == pytest.approx(1, abs=0.001)
        assert float(ratio[-1]) == pytest.approx(1.06, abs=0.001)
        return
    levels = moved.latency / still.latency * (1.06 ** (moved.t_sched / moved.t_sched[-1]))
    by_start = levels.reshape(40, 200)
    assert np.allclose(by_start, by_start[:, :1], rtol=1e-9)
    assert 2 <= len(np.unique(np.round(by_start[:, 0], 9))) < 40


def test_rows_depend_on_the_seed_only() -> None:
    """The same seed gives the same rows, another gives others."""
    bed = Bed(has_stalls=True, n_starts=2)
    first, again = (draw_rows(bed, generator(7, "rows")).t_done for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, draw_rows(bed, generator(8, "rows")).t_done)


def test_who_arrives_in_a_stall_goes_on_at_its_end() -> None:
    """Of those that wait, the ones that arrived during one stall begin at the same moment."""
    rows = draw_rows(Bed(n_per_start=4000, has_stalls=True), generator(4, "rows"))
    begin = (rows.t_send + rows.parts["queue"])[rows.parts["queue"] > 0]
    _, alike = np.unique(np.round(begin, 6), return_counts=True)
    assert int((alike >= 5).sum()) >= 1
