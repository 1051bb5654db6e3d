import io
import sys
import types
from pathlib import Path

import pytest

from harness.base.errors import RecordError, SetupError
from harness.importers.csv_table import number
from harness.importers.nsight_compute import read_ncu_csv
from harness.importers.profile_file import read_profile
from harness.records.kernel_counters import KernelCounters

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
RAW = f"""\
==PROF== Connected to process 1 (python)
==PROF== Disconnected from process 1
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",\
"Grid Size","Device","CC","gpu__time_duration.sum","dram__bytes.sum.per_second",\
"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","{STALL.format("long_scoreboard")}",\
"launch__func_cache_config","smsp__pcsamp_sample_buffer_full"
"","","","","","","","","","","","usecond","Gbyte/second","%","inst","",""
"0","1","python","host","penalty(float *, int)","1","7","(128, 1, 1)","(4, 1, 1)","0","9.0",\
"1,234.50","1,350.25","40.5","5.40","CachePreferNone","12 (3; 9)"
"1","1","python","host","gemm","1","7","(1, 1, 1)","(4, 1, 1)","0","9.0","10","n/a","nan","","x",""
"2","1","cut"
"""
DETAILS = """\
"ID","Process ID","Kernel Name","Context","Stream","Section Name","Metric Name","Metric Unit",\
"Metric Value"
"0","1","penalty","1","7","GPU Speed Of Light Throughput","Memory Throughput","%","81.5"
"0","1","penalty","1","7","GPU Speed Of Light Throughput","DRAM Throughput","%","40"
"0","1","penalty","1","7","GPU Speed Of Light Throughput","Duration","ms","1.5"
"0","1","penalty","1","7","Memory Workload Analysis","Memory Throughput","Gbyte/s","1,350"
"0","1","penalty","1","7","Raw","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","41"
"1","1","penalty","1","7","GPU Speed Of Light Throughput","Duration","nsecond","2,000"
"""


def read(text: str) -> KernelCounters:
    return read_ncu_csv(io.StringIO(text), "a.csv")


def test_the_raw_page_is_read_below_its_row_of_units() -> None:
    """Separators of thousands, units to base units; text and n/a are no numbers."""
    found = read(RAW)
    first, second = found.launches
    assert first.kernel == "penalty(float *, int)"
    assert first.values == pytest.approx(
        {
            "gpu__time_duration.sum": 1.2345e-3,
            "dram__bytes.sum.per_second": 1350.25e9,
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 0.405,
            STALL.format("long_scoreboard"): 5.4,
            "smsp__pcsamp_sample_buffer_full": 12,
        }
    )
    assert dict(second.values) == {"gpu__time_duration.sum": pytest.approx(1e-5)}
    assert found.caveats == ("a.csv: 1 rows that are cut were left out",)


def test_the_raw_page_without_units_loses_no_launch() -> None:
    """`--print-units` may leave that row away: the first launch is none."""
    lines = RAW.splitlines(keepends=True)
    del lines[3]
    assert [each.kernel for each in read("".join(lines)).launches] == [
        "penalty(float *, int)",
        "gemm",
    ]


def test_the_details_page_is_gathered_by_launch() -> None:
    """A heading that stands for a rate and for a share is both."""
    first, second = read(DETAILS).launches
    assert first.values == pytest.approx(
        {
            "Memory Throughput (%)": 0.815,
            "DRAM Throughput (%)": 0.4,
            "Duration": 1.5e-3,
            "Memory Throughput": 1350e9,
            "dram__throughput.avg.pct_of_peak_sustained_elapsed": 0.41,
        }
    )
    assert dict(second.values) == {"Duration": pytest.approx(2e-6)}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234,567.5", 1234567.5), ("-1,000", -1000.0), (" 3 ", 3.0), ("1e3", 1000.0),
        ("1,5", None), ("1.234,5", None), ("12,34", None), ("", None), ("n/a", None),
    ],
)  # fmt: skip
def test_a_comma_that_may_be_a_decimal_one_is_no_number(cell: str, value: float | None) -> None:
    """1,5 is not fifteen."""
    assert number(cell) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("==PROF== nothing\n", "no header with 'Kernel Name'"),
        ('"ID","Kernel Name"\n"0","k"\n', "without any counter"),
        ('"ID","Kernel Name","Metric Name"\n"0","k","m"\n', "without any counter"),
    ],
)
def test_a_table_without_counters_is_refused(text: str, problem: str) -> None:
    """And the export that has them is named."""
    with pytest.raises(RecordError, match=problem):
        read(text)


def test_a_report_needs_nvidias_module_or_an_export(tmp_path: Path) -> None:
    """Without the module the message is the command to export with."""
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(SetupError, match=r"ncu --import a.ncu-rep --page raw --csv > a.csv"):
        read_profile(path)


def test_a_report_is_read_by_the_module_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in with the documented calls: it shows the calls, not that NVIDIA's accept them."""

    class Metric:
        def __init__(self, value: object, unit: str) -> None:
            self.value, self.unit = (lambda: value), (lambda: unit)

    metrics = {"gpu__time_duration.sum": Metric(1500.0, "nsecond"), "name": Metric("text", "")}
    action = types.SimpleNamespace(
        name=lambda: "gemm", metric_names=lambda: list(metrics), metric_by_name=metrics.__getitem__
    )
    group = types.SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda _: action)
    context = types.SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda _: group)
    module = types.ModuleType("ncu_report")
    monkeypatch.setattr(module, "load_report", lambda _: context, raising=False)
    monkeypatch.setitem(sys.modules, "ncu_report", module)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")
    found = read_profile(path)
    assert isinstance(found, KernelCounters)
    (launch,) = found.launches
    assert launch.kernel == "gemm"
    assert dict(launch.values) == pytest.approx({"gpu__time_duration.sum": 1.5e-6})
