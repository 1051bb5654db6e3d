"""What Linux tells of a process' memory and of the processors' energy; absent where it does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

POWERCAP: Final = Path("/sys/class/powercap")
POWERCAP_VARIABLE: Final = "TAILBREAK_POWERCAP"
"""Where the host's zones are, in a container that has them elsewhere."""


def private_bytes(pid: int) -> int | None:
    """Resident memory of a process that it shares with no file or other process."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


class Energy:
    """Energy by source since this began: RAPL's zones, where they may be read.

    Source: Linux, power capping framework: `energy_uj` counts microjoules up to
    `max_energy_range_uj` and begins anew.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or Path(os.environ.get(POWERCAP_VARIABLE) or POWERCAP)
        self._zones = {
            zone: _read_number(zone / "energy_uj") for zone in sorted(folder.glob("intel-rapl:*"))
        }
        self._joules = {
            zone: 0.0 for zone, microjoules in self._zones.items() if microjoules is not None
        }

    def joules(self) -> dict[str, float]:
        """Give every source's energy up to now."""
        for zone in self._joules:
            now, last = _read_number(zone / "energy_uj"), self._zones[zone]
            if now is None or last is None:
                continue
            if now < last:
                last -= _read_number(zone / "max_energy_range_uj") or last
            self._joules[zone] += (now - last) / 1e6
            self._zones[zone] = now
        return {_source(zone): joules for zone, joules in self._joules.items()}


def _source(zone: Path) -> str:
    """Name a zone; a part of a package by both: `package-0/dram`."""
    name = _read_name(zone)
    package, colon, _ = zone.name.removeprefix("intel-rapl:").partition(":")
    return f"{_read_name(zone.with_name(f'intel-rapl:{package}'))}/{name}" if colon else name


def _read_name(zone: Path) -> str:
    try:
        return (zone / "name").read_text(encoding="utf-8").strip()[:64]
    except OSError:
        return zone.name


def _read_number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
