import math
import time

import numpy as np
import pytest
from scipy import stats

from kernels.bench.timing import MIN_ROUNDS, Contender, Interval, Timing, time_alternating


@pytest.mark.parametrize("n", [6, 9, 11, 20])
def test_the_interval_holds_the_median(n: int) -> None:
    """Of 4,000 samples of a skewed law at least 95 % of the intervals hold the true median."""
    draws = np.random.default_rng(n).exponential(size=(4000, n))
    intervals = [Interval.of_median(sample.tolist()) for sample in draws]
    held = sum(each.low <= math.log(2) <= each.high for each in intervals)
    assert stats.binomtest(held, 4000, 0.95, alternative="less").pvalue > 1e-3


def test_too_few_rounds_bound_nothing() -> None:
    """Below six values no order statistic bounds a median with 95 %."""
    assert Interval.of_median(range(MIN_ROUNDS)).low == 0
    assert Interval.of_median(range(MIN_ROUNDS - 1)) == Interval(2, -math.inf, math.inf)


def test_rounds_alternate_and_resets_precede_every_call() -> None:
    """The order turns around from round to round, and each call finds its input reset."""
    seen: list[str] = []

    def contender(name: str) -> Contender:
        return Contender(
            name=name, run=lambda: seen.append(name), reset=lambda: seen.append(f"reset {name}")
        )

    timings = time_alternating([contender("a"), contender("b")], n_rounds=4, slice_s=0)
    assert [name for name in seen if "reset" not in name][-8:] == list("abbaabba")
    assert all(seen[at - 1] == f"reset {seen[at]}" for at in range(1, len(seen), 2))
    assert timings["a"].n_rounds == 4


@pytest.mark.parametrize(("n_threads", "expected"), [(1, 2.0), (2, 3.0)])
def test_a_ratio_is_taken_within_rounds(n_threads: int, expected: float) -> None:
    """A slow round slows both; one thread is judged by processor time, several by wall time."""
    ours, theirs = (
        Timing(
            wall_s=(wall, wall, 9 * wall),
            processor_s=(processor, 7 * processor, processor),
            n_calls=1,
            n_threads=n_threads,
        )
        for wall, processor in ((1.0, 1.0), (3.0, 2.0))
    )
    assert ours.ratio_to(theirs).value == expected


def test_an_interrupted_first_call_does_not_leave_one_call_a_round() -> None:
    """A first call that waits for a tenth of a second is no measure of the following ones."""
    waits = iter([0.1])

    def run() -> None:
        time.sleep(next(waits, 0.0))

    (timing,) = time_alternating([Contender(name="a", run=run)], n_rounds=6, slice_s=0.002).values()
    assert timing.n_calls > 1
