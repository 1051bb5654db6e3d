"""Nsight Compute's counters: CSV of the raw page or of the details page, or its own report file.

Raw page: a column a counter, a row of units, a row a launch. Details page: a row a counter.
Source: the layouts that NVIDIA documents (`ncu --csv`, `--page raw`; the Python Report Interface).
No NVIDIA tool ran here; tests build files of that shape.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from harness.base.errors import RecordError, SetupError
from harness.importers.csv_table import number, read_table
from harness.records.kernel_counters import KernelCounters, Launch

TOOL: Final = "Nsight Compute"
KERNEL: Final = "Kernel Name"
LONGEST_NAME: Final = 300
_FIXED: Final = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
        "Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name",
    }
)  # fmt: skip
_PREFIXES: Final = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
_TIME: Final = re.compile(r"(n|u|m|)s(?:econd)?")
_BYTES_PER_TIME: Final = re.compile(r"(K|M|G|T|)byte/s(?:econd)?")
_INSTANCES: Final = re.compile(r"\s*[({].*$")


def read_ncu_csv(text: IO[str], file: str) -> KernelCounters:
    """Read either layout.

    Raises:
        RecordError: no such table, no counter in it, or more than allowed.
    """
    header, rows = read_table(text, file, KERNEL)
    read = _details if "Metric Name" in header else _raw
    kept, n_broken = [], 0
    for launch in read(header, rows):
        if launch is None:
            n_broken += 1
        else:
            kept.append(launch)
    if not any(launch.values for launch in kept):
        raise RecordError(
            f"{file}: a table of kernels without any counter; allowed is what "
            "`ncu --import REPORT --page raw --csv` writes"
        )
    caveats = (f"{file}: {n_broken:,} rows that are cut were left out",) if n_broken else ()
    return KernelCounters(file=file, tool=TOOL, launches=tuple(kept), caveats=caveats)


def read_ncu_report(path: Path) -> KernelCounters:
    """Read a report file by NVIDIA's own module, which comes with Nsight Compute.

    Raises:
        SetupError: the module is not there; how to export instead.
        RecordError: the module cannot read it.
    """
    try:
        reader: Any = importlib.import_module("ncu_report")
    except ImportError as error:
        raise SetupError(
            f"{path}: a report of Nsight Compute, which only NVIDIA's module ncu_report reads; it "
            "is not there (extras/python of Nsight Compute, into PYTHONPATH). Or export it: "
            f"ncu --import {path.name} --page raw --csv > {path.stem}.csv"
        ) from error
    try:
        context = reader.load_report(str(path))
        launches = [
            _from_action(each.action_by_idx(i))
            for each in (context.range_by_idx(k) for k in range(context.num_ranges()))
            for i in range(each.num_actions())
        ]
    except (RuntimeError, OSError, ValueError, TypeError, AttributeError) as error:
        raise RecordError(f"{path}: ncu_report cannot read it: {error}") from error
    return KernelCounters(file=str(path), tool=TOOL, launches=tuple(launches))


def _from_action(action: Any) -> Launch:
    told = ((name, action.metric_by_name(name)) for name in action.metric_names())
    values = _values((name, str(each.unit() or ""), str(each.value())) for name, each in told)
    return Launch(kernel=str(action.name())[:LONGEST_NAME], values=values)


def _raw(header: list[str], rows: Iterator[list[str]]) -> Iterator[Launch | None]:
    """The row below the header holds units, if it names no kernel."""
    at = header.index(KERNEL)
    counters = [(place, name) for place, name in enumerate(header) if name not in _FIXED]
    units = [""] * len(header)
    for turn, row in enumerate(rows):
        if len(row) != len(header):
            yield None
        elif turn == 0 and not row[at].strip():
            units = row
        else:
            values = _values((name, units[place], row[place]) for place, name in counters)
            yield Launch(kernel=row[at][:LONGEST_NAME], values=values)


def _details(header: list[str], rows: Iterator[list[str]]) -> Iterator[Launch | None]:
    """Rows of one ID are one launch."""
    id_at, kernel_at, name_at, unit_at, value_at = (
        header.index(each) if each in header else -1
        for each in ("ID", KERNEL, "Metric Name", "Metric Unit", "Metric Value")
    )
    if min(id_at, unit_at, value_at) < 0:
        return
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    for row in rows:
        if len(row) != len(header):
            yield None
            continue
        _, values = launches.setdefault(row[id_at], (row[kernel_at][:LONGEST_NAME], {}))
        for name, value in _values([(row[name_at], row[unit_at], row[value_at])]).items():
            # One heading (Memory Throughput) may stand for a rate and for a share.
            is_share = row[unit_at].strip() == "%" and "__" not in name
            values[f"{name} (%)" if is_share else name] = value
    for kernel, values in launches.values():
        yield Launch(kernel=kernel, values=values)


def _values(told: Iterable[tuple[str, str, str]]) -> dict[str, float]:
    """Numbers by counter, in base units; what is no number (text, n/a, nan) is left out."""
    values = {}
    for name, unit, cell in told:
        value = number(_INSTANCES.sub("", cell))
        if name and value is not None and math.isfinite(value):
            values[name[:LONGEST_NAME]] = value * _scale(unit.strip())
    return values


def _scale(unit: str) -> float:
    if unit == "%":
        return 0.01
    found = _TIME.fullmatch(unit) or _BYTES_PER_TIME.fullmatch(unit)
    return _PREFIXES[found.group(1)] if found else 1.0
