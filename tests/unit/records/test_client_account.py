"""One account over several load processes or sessions."""

from typing import Any

from harness.records.client_account import worst_account

ONE: dict[str, Any] = {
    "cpu_share": 0.2, "loop_lag_p99_s": None, "clock_steps": 1, "stamps": "kernel",
    "stamps_reason": "", "n_users": 2, "n_starved": 0, "exact_timer": True, "lost_workers": [],
}  # fmt: skip
TWO: dict[str, Any] = {
    "cpu_share": 0.7, "loop_lag_p99_s": 0.004, "clock_steps": 1, "stamps": "user",
    "stamps_reason": "no stamps here", "n_users": 1, "n_starved": 3, "exact_timer": False,
    "lost_workers": ["worker 1"],
}  # fmt: skip


def test_the_worst_of_each_figure_stands_for_all() -> None:
    """Counts add up, shares and lags are the largest, stamps the weakest, grants those of all."""
    assert worst_account([ONE, TWO]) == {
        "cpu_share": 0.7, "loop_lag_p99_s": 0.004, "clock_steps": 2, "stamps": "user",
        "stamps_reason": "no stamps here", "n_users": 3, "n_starved": 3, "exact_timer": False,
        "lost_workers": ["worker 1"],
    }  # fmt: skip


def test_processes_that_ran_at_once_saw_the_same_clock_step() -> None:
    """Two processes that each saw one step: the clock stepped once."""
    assert worst_account([ONE, TWO], at_once=True)["clock_steps"] == 1


def test_without_an_account_there_is_none() -> None:
    """A run whose load process died before writing one."""
    assert worst_account([]) == {}
