import numpy as np
import pytest
from numpy.typing import NDArray

from harness.stats.barrier import lateness_p, meet

Stamps = NDArray[np.float64]


def plant(
    seed: int,
    *,
    late_s: float = 0.0,
    clocks: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0),
    drift: float = 0.0,
    n: int = 120,
) -> tuple[Stamps, Stamps, Stamps]:
    """Arrivals and leaves by four clocks, and the true arrivals; rank 2 is `late_s` late."""
    rng = np.random.default_rng(seed)
    n_ranks = len(clocks)
    ready = np.arange(n)[:, None] * 0.02 + rng.exponential(0.001, (n, n_ranks))
    ready[:, 2] += late_s
    end = ready.max(axis=1, keepdims=True) + 0.0002 + rng.exponential(0.0005, (n, n_ranks))
    clock = np.array(clocks) + drift * np.arange(n_ranks) * ready[:, :1]
    return ready + clock, end + clock, ready


def test_the_wait_is_that_of_the_early_ranks() -> None:
    """By hand: ranks come at 0, 3 and 1, all leave at 5; the second clock is 100 ahead."""
    barrier = meet([[0.0, 103.0, 1.0]], [[5.0, 105.0, 5.0]])
    assert barrier.offset_s.tolist() == [[0.0, 100.0, 0.0]]
    assert barrier.wait_s.tolist() == [[3.0, 0.0, 2.0]]
    assert barrier.margin_s.tolist() == [2.0]
    assert barrier.error_s == 2.0  # the last one's stay: the transfer
    assert barrier.last.tolist() == [-1]  # no further from the second than the error
    assert meet([[0.0, 104.0, 1.0]], [[5.0, 105.0, 5.0]]).last.tolist() == [1]


@pytest.mark.parametrize("seed", range(5))
def test_clocks_that_differ_by_seconds_and_drift_are_aligned(seed: int) -> None:
    """Planted offsets are found within the error that is stated, with 20 ppm of drift as well."""
    clocks = (0.0, 3.0, -7.0, 0.25)
    begins, ends, truth = plant(seed, late_s=0.004, clocks=clocks, drift=2e-5)
    barrier = meet(begins, ends)
    true_wait = truth.max(axis=1, keepdims=True) - truth
    assert barrier.error_s < 0.0005
    assert np.abs(barrier.offset_s[60] - (begins - truth)[60]).max() < barrier.error_s
    assert np.abs(barrier.wait_s - true_wait).max() < 2 * barrier.error_s
    assert (barrier.last == 2).mean() > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_ranks_alike_are_last_alike(seed: int) -> None:
    """Without a late rank nobody is last more often than luck has it."""
    begins, ends, _ = plant(seed)
    barrier = meet(begins, ends)
    counts = [int((barrier.last == rank).sum()) for rank in range(4)]
    assert sum(counts) > 60
    assert min(lateness_p(counts, sum(counts))) > 0.01


def test_the_chance_of_being_last_is_binomial() -> None:
    """All of 5 with two ranks: 1/32 doubled by Holm; the other rank could not be less often."""
    assert lateness_p([5, 0], 5) == pytest.approx([2 / 32, 1.0])


@pytest.mark.parametrize(
    ("ready", "end"),
    [([[0.0]], [[1.0]]), ([[0.0, 1.0]], [[1.0, 0.5]]), ([[0.0, np.nan]], [[1.0, 2.0]]), ([], [])],
)
def test_no_meeting_is_an_error(ready: list[list[float]], end: list[list[float]]) -> None:
    """One rank, an end before its beginning, no number, nothing at all."""
    with pytest.raises(ValueError, match=r"allowed twice|lies before"):
        meet(ready, end)
