import pandas as pd
import pytest

from harness.findings.device_work import device_work
from harness.records.profile import Event, to_frame


def frame(*events: Event) -> pd.DataFrame:
    return to_frame(events)


def test_a_device_is_counted_within_its_steps() -> None:
    """By hand: two steps of 1 s; kernels before them do not count, overlaps count once."""
    work = device_work(
        frame(
            Event("kernel", "warm up", 0.0, 5.0),
            Event("step", "step 1", 10.0, 1.0),
            Event("step", "step 2", 12.0, 1.0),
            Event("kernel", "a", 10.0, 0.4),
            Event("kernel", "inside a", 10.05, 0.1),
            Event("kernel", "b", 10.2, 0.4),
            Event("kernel", "c", 12.5, 0.2),
            Event("copy", "host to device", 12.1, 0.1, 1000),
            Event("copy", "host to device", 12.2, 0.1, 500),
            Event("copy", "device to host", 12.8, 0.3, None),
            Event("launch", "cudaLaunchKernel", 10.0, 0.1),
            Event("sync", "cudaStreamSynchronize", 12.0, 0.5),
        )
    )
    assert work is not None
    assert (work.where, work.n_units, work.n_steps, work.time_s) == ("device", 4, 2, 2.0)
    assert work.units_per_s == 2
    assert work.unit_median_s == pytest.approx(0.3)
    assert work.busy_share == pytest.approx(0.8 / 2)
    assert work.longest_gap_s == pytest.approx(12.5 - 10.6)
    down, up = work.copies["device to host"], work.copies["host to device"]
    assert (up.n, up.n_bytes) == (2, 1500)
    assert up.share == pytest.approx(0.1)
    assert (down.n, down.n_bytes, down.time_s) == (1, None, 0.3)
    assert work.launch_share == pytest.approx(0.05)
    assert work.sync_share == pytest.approx(0.25)


def test_without_a_device_the_outermost_operators_count() -> None:
    """An operator inside another one is a part of it; another thread's is not."""
    work = device_work(
        frame(
            Event("op", "aten::linear", 0.0, 1.0, lane="1"),
            Event("op", "aten::addmm", 0.1, 0.8, lane="1"),
            Event("op", "aten::mm", 0.2, 0.8, lane="2"),
            Event("op", "aten::relu", 1.0, 1.0, lane="1"),
        )
    )
    assert work is not None
    assert (work.where, work.n_units, work.n_steps) == ("host", 3, None)
    assert work.time_s == 2.0
    assert work.copies == {}
    assert work.launch_share is None
    assert work.sync_share is None


def test_no_work_is_none() -> None:
    """Spans alone say nothing of a device."""
    assert device_work(frame(Event("span", "a", 0, 1))) is None
    assert device_work(frame()) is None
