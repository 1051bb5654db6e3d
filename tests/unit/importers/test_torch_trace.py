import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from harness.base.errors import RecordError
from harness.importers import chrome_trace, torch_trace, unpacked
from harness.importers.profile_file import read_profile
from harness.importers.torch_trace import read_torch_trace
from harness.records.profile import Profile


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 7, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {"name": "python"}},
    event("user_annotation", "ProfilerStep#3", 0.0, 1000.0),
    event("user_annotation", "reward", 10.0, 5.0),
    event("cpu_op", "aten::mm", 20.0, 30.0),
    event("cuda_runtime", "cudaLaunchKernel", 21.0, 4.0),
    event("cuda_runtime", "cudaStreamSynchronize", 60.0, 40.0),
    event("kernel", "void gemm<float>", 70.5, 20.25),
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 100.0, 8.0, bytes=4096),
    event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 110.0, 2.0, bytes=64),
    event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 200.0, 350.0,
          **{"Process Group Name": "0", "Seq": 12}),
    event("kernel", "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*)", 600.0, 50.0),
    event("user_annotation", "nccl:all_reduce", 190.0, 3.0),
    event("gpu_user_annotation", "nccl:all_reduce", 200.0, 350.0),
]  # fmt: skip
TRACE = {
    "schemaVersion": 1,
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
    "traceEvents": EVENTS,
    "baseTimeNanoseconds": 1_790_857_026_000_000_000,
}


def read(trace: Any) -> Profile:
    return read_torch_trace(io.StringIO(json.dumps(trace)), "a.json")


def test_every_kind_of_event_is_told_with_its_times_and_bytes() -> None:
    """Microseconds become seconds; what was only put into a queue on the host is no collective."""
    found = read(TRACE)
    assert (found.rank, found.n_ranks, found.base_ns) == (3, 8, 1_790_857_026_000_000_000)
    micro = (found.events[["start_s", "duration_s"]].to_numpy() * 1e6).round(3).tolist()
    rows = [
        (category, name, *times)
        for category, name, times in zip(
            found.events["category"], found.events["name"], micro, strict=True
        )
    ]
    assert rows == [
        ("step", "ProfilerStep#3", 0.0, 1000.0),
        ("span", "reward", 10.0, 5.0),
        ("op", "aten::mm", 20.0, 30.0),
        ("launch", "cudaLaunchKernel", 21.0, 4.0),
        ("sync", "cudaStreamSynchronize", 60.0, 40.0),
        ("kernel", "void gemm<float>", 70.5, 20.25),
        ("copy", "device to host", 100.0, 8.0),
        ("copy", "host to device", 110.0, 2.0),
        ("collective", "all_reduce", 200.0, 350.0),
        ("collective", "reduce_scatter", 600.0, 50.0),
    ]
    assert found.of("copy")["n_bytes"].tolist() == [4096, 64]
    first = found.of("collective").iloc[0]
    assert (first["group"], first["sequence"], first["rank"]) == ("0", 12, 3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gloo:all_reduce", "all_reduce"),
        ("gloo:barrier", "barrier"),
        ("gloo:broadcast", "broadcast"),
    ],
)
def test_gloo_names_are_known(name: str, kind: str) -> None:
    """Gloo's spans are collectives on whatever thread they run."""
    assert read({"traceEvents": [event("user_annotation", name, 1, 2)]}).events["name"][0] == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:all_to_all", "all_to_all"),
        ("nccl:reduce", "reduce"),
    ],
)
def test_spans_of_the_device_stand_in_for_kernels_that_are_not_told(name: str, kind: str) -> None:
    """NCCL's span on the device counts only where no NCCL kernel is told."""
    found = read({"traceEvents": [event("gpu_user_annotation", name, 1, 2)]})
    assert found.events["name"].tolist() == [kind]


@pytest.mark.parametrize("chunk", [1, 7, 64, 4096])
def test_the_trace_does_not_depend_on_how_it_is_cut(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read in pieces of any size, the same events come out, as from the list form."""
    monkeypatch.setattr(chrome_trace, "CHUNK", chunk)
    whole = read(TRACE).events
    head: dict[str, Any] = {}
    events = list(chrome_trace.read_events(io.StringIO(json.dumps(EVENTS)), "a", head))
    assert events == EVENTS
    assert len(whole) == 10
    assert read(EVENTS).events.drop(columns="rank").equals(whole.drop(columns="rank"))


def test_a_number_that_is_cut_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first digits are a number too: only what follows shows that it has ended."""
    monkeypatch.setattr(chrome_trace, "CHUNK", 1)
    for n in range(1, 30):
        head: dict[str, Any] = {"k" * n: None}
        text = f'{{"{"k" * n}": 1234567890123, "traceEvents": []}}'
        assert not list(chrome_trace.read_events(io.StringIO(text), "a", head))
        assert head == {"k" * n: 1234567890123}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON object"),
        ("7", "no JSON object"),
        ('{"traceEvents": [', "ends or breaks off"),
        ('{"traceEvents": [{"ph": "X"}', "',' or ']' is missing"),
        ('{"traceEvents": [{"ph": }]}', "breaks off"),
        ('{"a" 1}', "':' is missing"),
        ('{"a": 1 "b"', "',' or '}' is missing"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_whole_trace_is_told_with_its_place(text: str, problem: str) -> None:
    """A file that was cut, or never was one, is refused and not read halfway."""
    with pytest.raises(RecordError, match=f"a.json: character .*{problem}"):
        read_torch_trace(io.StringIO(text), "a.json")


def test_events_without_a_usable_time_are_counted_and_left_out() -> None:
    """NaN, words, negative and absent durations, arguments that are no map."""
    bad = [
        event("kernel", "a", float("nan"), 1), event("kernel", "a", 1, -1),
        event("kernel", "a", 1, float("inf")), event("kernel", "a", "soon", 1),  # type: ignore[arg-type]
        {"ph": "X", "cat": "kernel", "name": "a", "ts": 1},
        {"ph": "X", "cat": "gpu_memcpy", "name": "a", "ts": 1, "dur": 1, "args": [1]},
        {"ph": "X", "cat": 5, "name": None}, "no object",
    ]  # fmt: skip
    found = read({"traceEvents": [*bad, event("kernel", "b", 1, 1)]})
    assert found.events["name"].tolist() == ["b"]
    assert found.caveats == ("a.json: 6 events without a usable time were left out",)


def test_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many events, too long a value."""
    many = {"traceEvents": [event("kernel", "a", i, 1) for i in range(30)]}
    monkeypatch.setattr(torch_trace, "MOST_EVENTS", 20)
    with pytest.raises(RecordError, match="more than 20 events; profile fewer steps"):
        read(many)
    monkeypatch.setattr(chrome_trace, "CHUNK", 10)
    monkeypatch.setattr(chrome_trace, "MOST_OF_A_VALUE", 50)
    with pytest.raises(RecordError, match="no value of at most 50 characters"):
        read({"traceEvents": [event("kernel", "a" * 100, 1, 1)]})


def test_files_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    """Packed or not, whatever the name; another file is refused with what came and is allowed."""
    plain, packed, other = (tmp_path / name for name in ("a", "b.json", "c.json"))
    plain.write_text(json.dumps(TRACE))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    other.write_bytes(b"PK\x03\x04")
    both = [read_profile(each) for each in (plain, packed)]
    assert isinstance(both[0], Profile)
    assert isinstance(both[1], Profile)
    assert both[0].events.equals(both[1].events)
    with pytest.raises(RecordError, match=r"c.json: got b'PK.*, allowed the torch profiler"):
        read_profile(other)
    with pytest.raises(RecordError, match="cannot be read"):
        read_profile(tmp_path / "none")
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(RecordError, match="cut or broken"):
        read_profile(packed)


@pytest.mark.parametrize(
    "filling",
    [b" " * (1 << 20), b'{"ph": "M"},' * 100_000, b'"' + b"x" * (1 << 20) + b'",'],
    ids=["spaces", "events", "words"],
)
def test_a_file_that_unpacks_to_gigabytes_is_refused_at_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filling: bytes
) -> None:
    """Of one that holds ever more of nothing, little is unpacked; what to do is said."""
    monkeypatch.setattr(unpacked, "FREE_BYTES", 4 << 20)
    packed = zlib.compressobj(9, wbits=31)
    bomb = tmp_path / "bomb.json.gz"
    with bomb.open("wb") as file:
        file.write(packed.compress(b'{"traceEvents": ['))
        for _ in range(20):
            file.write(packed.compress(filling))
    places: list[int] = []
    with pytest.raises(RecordError, match=r"bomb.json.gz: its first .* unpack to .*gunzip"):
        read_profile(bomb, places.append)
    assert places[-1] < bomb.stat().st_size


def test_more_bytes_than_allowed_are_refused_packed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is on what is unpacked; below it every byte of the file is told as behind."""
    plain = tmp_path / "a.json"
    plain.write_text(json.dumps(TRACE))
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for file in (plain, packed):
        places: list[int] = []
        read_profile(file, places.append)
        assert places == sorted(places)
        assert places[-1] == file.stat().st_size
    monkeypatch.setattr(unpacked, "MOST_BYTES", plain.stat().st_size - 1)
    for file in (plain, packed):
        with pytest.raises(RecordError, match=r"more than .* bytes; profile fewer steps"):
            read_profile(file)


def test_a_key_that_is_no_word_is_no_trace_but_no_fault_either() -> None:
    """Where a list stands for a key, it is passed over, as any other."""
    assert read_torch_trace(io.StringIO('{[1]: 2, "traceEvents": []}'), "a").rank is None
