"""The torch profiler's Chrome trace of one process: kernels, copies, operators, collectives.

Collectives are NCCL's kernels, NCCL's spans on the device where the kernels are not told, or gloo's
spans; `ready` is their beginning on this rank, since they wait inside for the others.
Source: the names and categories that torch.profiler and Kineto write (PyTorch 1.13 to 2.13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import IO, Any, Final

from harness.base.errors import RecordError
from harness.importers.chrome_trace import read_events
from harness.importers.collective_names import of_kernel, of_span
from harness.records.profile import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Category,
    Event,
    Profile,
    to_frame,
)

TOOL: Final = "torch profiler"
MOST_EVENTS: Final = 5_000_000
LONGEST_NAME: Final = 300

_DIRECTIONS: Final = {
    "HtoD": HOST_TO_DEVICE,
    "DtoH": DEVICE_TO_HOST,
    "DtoD": "device to device",
}


def read_torch_trace(text: IO[str], file: str) -> Profile:
    """Read one trace; a few hundred bytes of memory an event that matters, none for the others.

    Raises:
        RecordError: no such trace, or more than `MOST_EVENTS` events that matter.
    """
    head: dict[str, Any] = dict.fromkeys(("distributedInfo", "baseTimeNanoseconds"))
    events: list[Event] = []
    spans: list[Event] = []
    n_broken = 0
    for raw in read_events(text, file, head):
        try:
            event = _event(raw)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            n_broken += 1
            continue
        if event is None:
            continue
        (spans if raw.get("cat") == "gpu_user_annotation" else events).append(event)
        if len(events) + len(spans) > MOST_EVENTS:
            raise RecordError(
                f"{file}: got more than {MOST_EVENTS:,} events; profile fewer steps "
                f"(torch.profiler.schedule) and read again"
            )
    if not any(each.category == "collective" for each in events):
        events += spans
    told = head.get("distributedInfo")
    told = told if isinstance(told, dict) else {}
    rank = _whole(told.get("rank"))
    return Profile(
        file=file,
        tool=TOOL,
        events=to_frame(events, rank),
        rank=rank,
        n_ranks=_whole(told.get("world_size")),
        base_ns=_whole(head.get("baseTimeNanoseconds")) or 0,
        caveats=_caveats(file, events, n_broken),
    )


def _caveats(file: str, events: list[Event], n_broken: int) -> tuple[str, ...]:
    found = []
    if not events:
        found.append(f"{file}: no event of the torch profiler in it")
    if n_broken:
        found.append(f"{file}: {n_broken:,} events without a usable time were left out")
    return tuple(found)


def _event(raw: dict[str, Any]) -> Event | None:
    """The event where it matters here; None otherwise."""
    make = _MAKERS.get(str(raw.get("cat", "")).lower())
    if raw.get("ph") != "X" or make is None:
        return None
    return make(raw, str(raw.get("name", ""))[:LONGEST_NAME], raw.get("args") or {})


def _kernel(raw: dict[str, Any], name: str, args: dict[str, Any]) -> Event:
    kind = of_kernel(name)
    return _collective(raw, kind, args) if kind else _plain(raw, "kernel", name)


def _copy(raw: dict[str, Any], name: str, args: dict[str, Any]) -> Event:
    direction = next((word for sign, word in _DIRECTIONS.items() if sign in name), name)
    return _plain(raw, "copy", direction, _whole(args.get("bytes")))


def _runtime(raw: dict[str, Any], name: str, _: dict[str, Any]) -> Event | None:
    if "Launch" in name:
        return _plain(raw, "launch", name)
    return _plain(raw, "sync", name) if "Synchronize" in name else None


def _operator(raw: dict[str, Any], name: str, _: dict[str, Any]) -> Event | None:
    return _plain(raw, "op", name) if name.startswith("aten::") else None


def _annotation(raw: dict[str, Any], name: str, args: dict[str, Any]) -> Event | None:
    if name.startswith("ProfilerStep"):
        return _plain(raw, "step", name)
    if name.startswith("nccl:"):  # on the host: it was only put into the queue
        return None
    kind = of_span(name)
    return _collective(raw, kind, args) if kind else _plain(raw, "span", name)


def _device_annotation(raw: dict[str, Any], name: str, args: dict[str, Any]) -> Event | None:
    kind = of_span(name)
    return _collective(raw, kind, args) if kind else None


_MAKERS: Final[dict[str, Callable[[dict[str, Any], str, dict[str, Any]], Event | None]]] = {
    "kernel": _kernel,
    "gpu_memcpy": _copy,
    "cuda_runtime": _runtime,
    "cuda_driver": _runtime,
    "cpu_op": _operator,
    "user_annotation": _annotation,
    "gpu_user_annotation": _device_annotation,
}


def _plain(raw: dict[str, Any], category: Category, name: str, n_bytes: int | None = None) -> Event:
    return Event(category, name, *_times(raw), n_bytes=n_bytes, lane=str(raw.get("tid", "")))


def _collective(raw: dict[str, Any], kind: str, args: dict[str, Any]) -> Event:
    return Event(
        "collective",
        kind,
        *_times(raw),
        lane=str(raw.get("tid", "")),
        group=str(args.get("Process Group Name", ""))[:LONGEST_NAME],
        sequence=_whole(args.get("Seq")),
    )


def _times(raw: dict[str, Any]) -> tuple[float, float]:
    """Beginning and duration; the format counts in microseconds, whatever it is displayed in."""
    start_s, duration_s = float(raw["ts"]) / 1e6, float(raw["dur"]) / 1e6
    if not math.isfinite(start_s) or not 0 <= duration_s < math.inf:
        raise ValueError("no usable time")
    return start_s, duration_s


def _whole(value: Any) -> int | None:
    """A whole number that fits into 64 bits, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < 2**63 else None  # not where it is no number
