import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.base.errors import RecordError, SetupError
from harness.importers import nsight_systems
from harness.importers.nsight_systems import read_nsight_sqlite
from harness.importers.nsight_systems_csv import read_nsight_csv
from harness.importers.profile_file import read_profile
from harness.records.profile import Profile
from tests.unit.importers.nsight_files import NsightSystems


def rows(profile: Profile) -> list[tuple[object, ...]]:
    events = profile.events
    micro = (events[["start_s", "duration_s"]].to_numpy() * 1e6).round(3).tolist()
    return [
        (category, name, *times)
        for category, name, times in zip(events["category"], events["name"], micro, strict=True)
    ]


def test_tables_become_events_in_seconds(tmp_path: Path) -> None:
    """Nanoseconds, names by number or in place, kinds of copies; marks and other calls are none."""
    export = NsightSystems(tmp_path / "a.sqlite").add(
        kernels=[(1_000, 3_500, "gemm"), (9_000, 9_500, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")],
        copies=[(4_000, 5_000, 4096, 2), (5_000, 5_250, 64, 1), (6_000, 6_001, 1, 8)],
        calls=[(500, 700, "cudaLaunchKernel_v7000"), (700, 900, "cudaMemcpyAsync_v3020"),
               (7_000, 8_000, "cudaStreamSynchronize_v3020")],
        ranges=[(0, 10_000, "step 4"), (100, 200, "reward"), (300, None, "a mark")],
    )  # fmt: skip
    with closing(sqlite3.connect(export.path)) as base, base:
        base.execute(
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '')"
        )
        base.execute("INSERT INTO StringIds VALUES (900, 'named apart')")
        base.execute("INSERT INTO NVTX_EVENTS (start, end, textId) VALUES (9600, 9700, 900)")
    found = read_nsight_sqlite(export.path)
    assert rows(found) == [
        ("step", "step 4", 0.0, 10.0),
        ("span", "reward", 0.1, 0.1),
        ("launch", "cudaLaunchKernel_v7000", 0.5, 0.2),
        ("kernel", "gemm", 1.0, 2.5),
        ("copy", "device to host", 4.0, 1.0),
        ("copy", "host to device", 5.0, 0.25),
        ("copy", "device to device", 6.0, 0.001),
        ("sync", "cudaStreamSynchronize_v3020", 7.0, 1.0),
        ("collective", "all_reduce", 9.0, 0.5),
        ("span", "named apart", 9.6, 0.1),
    ]
    assert found.of("copy")["n_bytes"].tolist() == [4096, 64, 1]
    assert found.base_ns == 1_700_000_000_000_000_000
    assert read_profile(export.path).caveats == ()


def test_a_table_that_was_not_exported_is_told(tmp_path: Path) -> None:
    """Without the calls of the runtime the rest is read, and the lack is a caveat."""
    export = NsightSystems(tmp_path / "a.sqlite").add(kernels=[(0, 5, "k")])
    with closing(sqlite3.connect(export.path)) as base, base:
        base.execute("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")
    (caveat,) = read_nsight_sqlite(export.path).caveats
    assert "no table CUPTI_ACTIVITY_KIND_RUNTIME" in caveat


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY",
         "nsys export --type sqlite"),
        ("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN shortName", "no such column"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = -1", "ends before it begins"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "no readable export"),
    ],
)  # fmt: skip
def test_another_database_is_refused(tmp_path: Path, statement: str, problem: str) -> None:
    """Without the tables, without a column, with values that cannot be."""
    export = NsightSystems(tmp_path / "a.sqlite").add(kernels=[(0, 5, "k")])
    with closing(sqlite3.connect(export.path)) as base:
        base.executescript(statement)
    with pytest.raises(RecordError, match=problem):
        read_nsight_sqlite(export.path)


def test_a_broken_database_is_refused(tmp_path: Path) -> None:
    """A header alone, and what only looks like one."""
    export = NsightSystems(tmp_path / "a.sqlite").add(kernels=[(i, i + 5, "k") for i in range(999)])
    whole = export.path.read_bytes()
    for n in (100, len(whole) // 2):
        export.path.write_bytes(whole[:n])
        with pytest.raises(RecordError, match=r"a\.sqlite: (no readable|an SQLite file without)"):
            read_profile(export.path)


def test_too_many_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, whatever the file holds."""
    export = NsightSystems(tmp_path / "a.sqlite").add(kernels=[(i, i + 5, "k") for i in range(30)])
    monkeypatch.setattr(nsight_systems, "MOST_EVENTS", 20)
    with pytest.raises(RecordError, match="more than 20 events"):
        read_nsight_sqlite(export.path)


GPU_TRACE = """\
Processing [a.sqlite] with [cuda_gpu_trace.py]...

Start (ns),Duration (ns),CorrId,GrdX,Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Strm,Name
"1,000",500,1,8,,,,,7,"void gemm<float, 128>(int)"
2000,250,2,,0.004,16.0,Device,Pageable,7,[CUDA memcpy Device-to-Host]
3000,100,3,,0.000064,1.0,Pinned,Device,7,[CUDA memcpy HtoD]
4000,10,4,,0.1,,,,7,[CUDA memset]
5000,300,5,1,,,,,7,ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096>)
6000,many,6,1,,,,,7,lost
7000,1
"""


def test_a_gpu_trace_in_csv_is_read_in_its_units(tmp_path: Path) -> None:
    """Below what the tool printed; MB become bytes, rows that are cut are counted."""
    found = read_nsight_csv(io.StringIO(GPU_TRACE), "a.csv")
    assert rows(found) == [
        ("kernel", "void gemm<float, 128>(int)", 1.0, 0.5),
        ("copy", "device to host", 2.0, 0.25),
        ("copy", "host to device", 3.0, 0.1),
        ("collective", "all_gather", 5.0, 0.3),
    ]
    assert found.of("copy")["n_bytes"].tolist() == [4000, 64]
    assert found.caveats == ("a.csv: 2 rows that are cut or hold no times",)
    in_us = GPU_TRACE.replace("Start (ns)", "Start (us)").replace("Bytes (MB)", "Bytes (KiB)")
    other = read_nsight_csv(io.StringIO(in_us), "a.csv")
    assert other.events["start_s"].iloc[0] == pytest.approx(1e-3)
    assert other.of("copy")["n_bytes"].tolist() == [4, 0]
    (tmp_path / "a.csv").write_text(GPU_TRACE)
    told = read_profile(tmp_path / "a.csv")
    assert isinstance(told, Profile)
    assert told.events.equals(found.events)


def test_an_api_trace_gives_launches_and_waits() -> None:
    """Other calls are left out."""
    text = (
        "Start (ns),Duration (ns),Name,Result,CorrID\n10,5,cudaLaunchKernel,0,1\n"
        "20,5,cudaMemcpyAsync,0,2\n30,7,cudaDeviceSynchronize,0,3\n40,7,cuLaunchKernelEx,0,3\n"
    )
    found = read_nsight_csv(io.StringIO(text), "a.csv")
    assert found.events["category"].tolist() == ["launch", "sync", "launch"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Time (%),Total Time (ns),Instances,Name\n1,2,3,k\n", "without times.*cuda_gpu_trace"),
        ("Start (h),Duration (ns),Name\n1,2,k\n", "Start in 'h', allowed ns"),
    ],
)
def test_a_report_without_times_is_refused(text: str, problem: str) -> None:
    """Summaries say nothing of gaps and order; an unknown unit is not guessed."""
    with pytest.raises(RecordError, match=problem):
        read_nsight_csv(io.StringIO(text), "a.csv")


@pytest.mark.parametrize("suffix", ["nsys-rep", "qdrep"])
def test_the_tools_own_format_names_the_export(tmp_path: Path, suffix: str) -> None:
    """Nobody reads it but nsys."""
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"?")
    with pytest.raises(SetupError, match="nsys export --type sqlite a"):
        read_profile(path)


def test_a_cell_without_an_end_is_refused(tmp_path: Path) -> None:
    """A cell beyond what a CSV reader takes is told, in the header as in a row."""
    path, cell = tmp_path / "a.csv", "k" * 200_000
    for text in (f"Start (ns),Duration (ns),CorrId,Name\n1,1,1,{cell}\n", f"{cell},Name,b\n"):
        path.write_text(text)
        with pytest.raises(RecordError, match=r"a\.csv: a row cannot be read: field larger"):
            read_profile(path)
