"""The load process about itself."""

import gc
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness.base.scheduling import NICE, SLICE_NS, ask_for_short_slices
from harness.load.client.rx_timestamp import RxTimestamps
from harness.load.client_health import ClientHealth


def never(_due_ns: int) -> bool:
    return False


@pytest.fixture
def health() -> Iterator[ClientHealth]:
    made = ClientHealth(RxTimestamps.user_space("test"), never)
    made.start()
    yield made
    made.close()


def test_collection_is_off_inside_a_segment_and_runs_between(health: ClientHealth) -> None:
    """Garbage made in a segment is collected at its end."""
    health.start_segment()
    assert not gc.isenabled()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    health.end_segment()
    assert gc.isenabled()
    assert gc.collect() == 0


def test_a_collection_inside_a_segment_is_noted(health: ClientHealth) -> None:
    """Its pause is the figure; one between segments is not."""
    gc.collect()
    assert health.gc_pause_max_s == 0
    health.start_segment()
    gc.collect()
    health.end_segment()
    assert health.gc_pause_max_s > 0


def test_the_cpu_share_is_that_of_the_segments(health: ClientHealth) -> None:
    """Idle for the segment: a small share, though the process worked before it."""
    health.start_segment()
    time.sleep(0.05)
    health.end_segment()
    assert 0 <= health.summary()["cpu_share"] < 0.5


def test_loop_lag_is_the_oversleep_inside_segments() -> None:
    """A loop that wakes 5 ms late: that is the lag."""
    naps = iter([True, True, True, True, False])

    def late(due_ns: int) -> bool:
        time.sleep(max(0.0, (due_ns + 5_000_000 - time.monotonic_ns()) / 1e9))
        return next(naps)

    health = ClientHealth(RxTimestamps.user_space("test"), late)
    health.start_segment()
    health.run_probe()
    health.end_segment()
    health.close()
    assert 0.005 <= health.summary()["loop_lag_p99_s"] < 0.1


def test_a_run_without_segments_has_no_figures() -> None:
    """Nothing was measured: null, not zero."""
    summary = ClientHealth(RxTimestamps.user_space("test"), never).summary()
    assert (summary["cpu_share"], summary["loop_lag_p99_s"]) == (None, None)
    assert (summary["stamps"], summary["stamps_reason"]) == ("user", "test")


def test_the_interpreter_is_left_as_it_was_found() -> None:
    """Collector, callbacks and switch interval are restored."""
    interval, callbacks = sys.getswitchinterval(), list(gc.callbacks)
    health = ClientHealth(RxTimestamps.user_space("test"), never)
    health.start()
    health.start_segment()
    health.close()
    assert (sys.getswitchinterval(), gc.callbacks) == (interval, callbacks)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_short_slices_are_granted_or_refused_without_harm() -> None:
    """The answer is yes or no, never an exception; a nonsensical wish is no."""
    assert ask_for_short_slices() in {True, False}
    assert ask_for_short_slices(2**62) is False
    assert SLICE_NS == 100_000


@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        ("", {0, NICE}),
        ("os.nice(3)", {3}),
        ("os.getuid() or os.setuid(65534)", {0}),
    ],
)
def test_priority_is_asked_for_and_never_forced(before: str, allowed: set[int]) -> None:
    """Granted where permitted; a chosen nice value stays; without the privilege nothing breaks."""
    code = f"""
import os
from harness.base.scheduling import ask_for_priority
{before}
print(ask_for_priority())
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert int(shown) in allowed
