from typing import Any

import pytest

from harness.report.validity import checks
from tests.unit.report.make_report import make_report, make_validity


def _mark(name: str, **changes: Any) -> str:
    report = make_report(validity=make_validity(**changes))
    return next(check.mark for check in checks(report) if check.name.startswith(name))


@pytest.mark.parametrize(
    ("name", "changes", "mark"),
    [
        ("Receive stamps", {}, "good"),
        ("Receive stamps", {"stamps": "user"}, "doubt"),
        ("Receive lag", {"rx_lag_p99_s": 0.5}, "good"),
        ("Receive lag", {"rx_lag_p99_s": 0.5, "stamps": "user"}, "doubt"),
        ("Dispatch lag", {"dispatch_lag_share_max": 0.01}, "good"),
        ("Dispatch lag", {"dispatch_lag_share_max": 0.011}, "doubt"),
        ("Dispatch lag", {"dispatch_lag_share_max": None}, "unknown"),
        ("Read late", {"late_read_share": 0.06}, "doubt"),
        ("Coalesced", {"coalesced_share": 0.06}, "doubt"),
        ("Sent rate", {"offered_rps": 50.0, "sent_rps": 49.5}, "good"),
        ("Sent rate", {"offered_rps": 50.0, "sent_rps": 41.7}, "doubt"),
        ("Sent rate", {"offered_rps": None}, "plain"),
        ("Sent rate", {"sent_rps": None}, "unknown"),
        ("Client CPU", {"client_cpu_share": 0.9}, "doubt"),
        ("Clock steps", {"clock_steps": 1}, "doubt"),
        ("Prompt length", {"prompt_length_exact_share": 0.98}, "doubt"),
        ("Output length", {"output_length_exact_share": None}, "unknown"),
    ],
)
def test_marks(name: str, changes: dict[str, Any], mark: str) -> None:
    """A figure past its limit is a doubt, and one that is not known is never good."""
    assert _mark(name, **changes) == mark


def test_every_check_says_what_it_means() -> None:
    """No tile is left without its sentence."""
    assert all(check.meaning.endswith(".") for check in checks(make_report()))
