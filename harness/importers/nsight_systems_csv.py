"""The trace reports of `nsys stats` as CSV: what ran on the device, or which calls were made.

Units stand in the header, and may be other than nanoseconds (`--timeunit`).
Source: the report columns that NVIDIA documents; summaries (`*_sum`) hold no times and are refused.
"""

from __future__ import annotations

import math
import re
from typing import IO, Final

from harness.base.errors import RecordError
from harness.findings.text import line
from harness.importers.collective_names import of_kernel
from harness.importers.csv_table import number, read_table
from harness.importers.nsight_systems import LONGEST_NAME, TOOL
from harness.records.profile import DEVICE_TO_HOST, HOST_TO_DEVICE, Event, Profile, to_frame

SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
BYTES: Final = {
    "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
}  # fmt: skip
DIRECTIONS: Final = {
    "Host-to-Device": HOST_TO_DEVICE,
    "HtoD": HOST_TO_DEVICE,
    "Device-to-Host": DEVICE_TO_HOST,
    "DtoH": DEVICE_TO_HOST,
    "Device-to-Device": "device to device",
}
_CALL: Final = re.compile(r"cu(da)?[A-Z]\w+$")
_UNIT: Final = re.compile(r"(.*?)\s*\(([^)]+)\)$")


def read_nsight_csv(text: IO[str], file: str) -> Profile:
    """Read `cuda_gpu_trace` or `cuda_api_trace`.

    Raises:
        RecordError: another report, an unknown unit, or more rows than allowed.
    """
    header, rows = read_table(text, file, "Name")
    columns = {_split(cell)[0]: (place, _split(cell)[1]) for place, cell in enumerate(header)}
    if not {"Start", "Duration"} <= set(columns):
        raise RecordError(
            f"{file}: a report of nsys without times, columns {line(', '.join(header), 200)}; "
            "allowed `nsys stats --report cuda_gpu_trace --format csv` or cuda_api_trace"
        )
    name_at = columns["Name"][0]
    start_at, start_unit = _place(file, columns, "Start", SECONDS)
    duration_at, duration_unit = _place(file, columns, "Duration", SECONDS)
    bytes_at, bytes_unit = (
        _place(file, columns, "Bytes", BYTES) if "Bytes" in columns else (-1, 1.0)
    )
    events, n_broken = [], 0
    for row in rows:
        if len(row) != len(header):
            n_broken += 1
            continue
        start, duration = number(row[start_at]), number(row[duration_at])
        if (
            start is None
            or duration is None
            or not 0 <= duration < math.inf
            or not math.isfinite(start)
        ):
            n_broken += 1
            continue
        told = number(row[bytes_at]) if bytes_at >= 0 else None
        n_bytes = None if told is None or not math.isfinite(told) else round(told * bytes_unit)
        event = _event(row[name_at], start * start_unit, duration * duration_unit, n_bytes)
        if event is not None:
            events.append(event)
    caveats = (f"{file}: {n_broken:,} rows that are cut or hold no times",) if n_broken else ()
    return Profile(file=file, tool=TOOL, events=to_frame(events), caveats=caveats)


def _event(name: str, start_s: float, duration_s: float, n_bytes: int | None) -> Event | None:
    shown = name[:LONGEST_NAME]
    if "memcpy" in shown and shown.startswith("["):
        direction = next((word for sign, word in DIRECTIONS.items() if sign in shown), shown)
        return Event("copy", direction, start_s, duration_s, n_bytes)
    if _CALL.match(shown):
        if "Launch" in shown:
            return Event("launch", shown, start_s, duration_s)
        return Event("sync", shown, start_s, duration_s) if "Synchronize" in shown else None
    if shown.startswith("["):
        return None
    kind = of_kernel(shown)
    return Event("collective" if kind else "kernel", kind or shown, start_s, duration_s)


def _split(cell: str) -> tuple[str, str]:
    found = _UNIT.match(cell.strip())
    return (found.group(1), found.group(2)) if found else (cell.strip(), "")


def _place(
    file: str, columns: dict[str, tuple[int, str]], name: str, units: dict[str, float]
) -> tuple[int, float]:
    place, unit = columns[name]
    if unit not in units:
        raise RecordError(f"{file}: {name} in {unit[:20]!r}, allowed {', '.join(units)}")
    return place, units[unit]
