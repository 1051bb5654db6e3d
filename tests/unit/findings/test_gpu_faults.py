"""GPUs that fail during a run make it doubtful, by name, code and time."""

import dataclasses

from harness.findings.rules import gpu_faults
from harness.records.telemetry import Reading
from tests.make_records import make_evidence
from tests.telemetry_rows import rows, scrapes, telemetry

T = tuple(float(t) for t in range(20))
GPU = {"gpu": "3", "uuid": "GPU-3"}


def doubts(*parts: list[Reading]) -> list[str]:
    evidence = dataclasses.replace(make_evidence(), telemetry=telemetry(scrapes(*T), *parts))
    return [doubt.text for doubt in gpu_faults.check(evidence)]


def test_gpus_in_health_raise_no_doubt() -> None:
    """Nor do a run without telemetry, one without GPUs, an old XID and a power cap."""
    assert gpu_faults.check(make_evidence()) == []
    assert doubts() == []
    old = rows("mc_gpu_xid_errors_total", [(0, 2)], kind="counter", xid="31", **GPU)
    capped = rows("mc_gpu_throttled", [(0, 1)], reason="sw_power_cap", **GPU)
    assert doubts(rows("mc_gpu_up", [(0, 1)], **GPU), old, capped) == []


def test_an_xid_is_told_with_gpu_code_and_time() -> None:
    """Also one whose series began with it."""
    points = {"31": [(0.0, 1.0), (4.0, 2.0)], "79": [(5.0, 1.0)]}
    series = [
        rows("mc_gpu_xid_errors_total", list(at), kind="counter", xid=code, **GPU)
        for code, at in points.items()
    ]
    assert doubts(*series) == [
        "GPU 3 (GPU-3) reported XID 31 at 00:00:04 UTC",
        "GPU 3 (GPU-3) reported XID 79 at 00:00:05 UTC",
    ]


def test_a_lost_gpu_is_told_with_its_time() -> None:
    """From the first scrape that found it gone."""
    assert doubts(rows("mc_gpu_up", [(0, 1), (7, 0)], **GPU)) == [
        "GPU 3 (GPU-3) did not answer at 00:00:07 UTC"
    ]


def test_heat_that_holds_clocks_down_is_told() -> None:
    """Half of the time by thermal slowdown."""
    hot = rows("mc_gpu_throttled", [(0, 0), (10, 1)], reason="hw_thermal_slowdown", **GPU)
    (told,) = doubts(hot)
    assert told == "GPU 3 is throttled 50 % of the time: hw_thermal_slowdown"
