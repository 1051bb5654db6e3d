import pytest

from harness.findings.kernel_stalls import MEANINGS, kernel_rows
from harness.records.kernel_counters import KernelCounters, Launch

WARPS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SAMPLES = "smsp__pcsamp_warps_issue_stalled_{}"


def counters(*launches: tuple[str, dict[str, float]]) -> KernelCounters:
    told = tuple(Launch(kernel=kernel, values=values) for kernel, values in launches)
    return KernelCounters(file="a.csv", tool="test", launches=told)


def test_shares_are_of_stalled_warps_and_weighted_by_time() -> None:
    """By hand: 3 ms at 75 % and 1 ms at 25 % make 62.5 %; a selected warp is no stall."""
    one = {"gpu__time_duration.sum": 3e-3, WARPS.format("long_scoreboard"): 6.0,
           WARPS.format("wait"): 2.0, WARPS.format("selected"): 9.0}  # fmt: skip
    two = {"gpu__time_duration.sum": 1e-3, WARPS.format("long_scoreboard"): 1.0,
           WARPS.format("short_scoreboard"): 3.0}  # fmt: skip
    (row,) = kernel_rows(counters(("k", one), ("k", two)))
    assert row.n_launches == 2
    assert row.time_s == pytest.approx(4e-3)
    assert next(iter(row.stalls)) == "long_scoreboard"
    assert row.stalls == pytest.approx(
        {"long_scoreboard": 0.625, "wait": 0.1875, "short_scoreboard": 0.1875}
    )


def test_samples_go_before_averages_and_leave_out_what_issued() -> None:
    """The sampled reasons decide where both are told; `not_issued` ones are a part of them."""
    (row,) = kernel_rows(counters(("k", {
        SAMPLES.format("barrier"): 30.0, SAMPLES.format("wait"): 10.0,
        SAMPLES.format("barrier_not_issued"): 99.0, WARPS.format("wait"): 5.0,
    })))  # fmt: skip
    assert row.stalls == {"barrier": 0.75, "wait": 0.25}


def test_kernels_stand_by_their_time_and_what_is_not_told_is_null() -> None:
    """Rates weighted by time; a counter that one launch lacks is a mean over the others."""
    slow = {"gpu__time_duration.sum": 3e-3, "dram__bytes.sum.per_second": 1e12}
    fast = {"gpu__time_duration.sum": 1e-3, "dram__bytes.sum.per_second": 5e12}
    bare = {"gpu__time_duration.sum": 1e-3}
    first, second = kernel_rows(counters(("b", bare), ("a", slow), ("a", fast), ("a", bare)))
    assert (first.kernel, second.kernel) == ("a", "b")
    assert first.dram_bytes_per_s == pytest.approx(2e12)
    assert second.dram_bytes_per_s is None
    assert first.instructions_per_cycle is None
    assert first.stalls == {}
    (untimed,) = kernel_rows(counters(("c", {"Executed Ipc Active": 2.0}), ("c", {})))
    assert untimed.time_s is None
    assert untimed.instructions_per_cycle == 2.0


def test_reasons_have_a_meaning() -> None:
    """Special functions are where a square root waits: there is no unit for penalties."""
    assert "sqrt" in MEANINGS["short_scoreboard"]
    assert {"long_scoreboard", "math_pipe_throttle", "wait", "not_selected"} <= set(MEANINGS)
