"""What a profile shows of a device's work: kernels, gaps, copies to and from the host, launches.

Where a profile holds no device, the host's own operators stand in for kernels. Shares are of the
steps where the profile knows steps, otherwise of all the time from the first event to the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.records.profile import DEVICE_TO_HOST, HOST_TO_DEVICE

DIRECTIONS: Final = (HOST_TO_DEVICE, DEVICE_TO_HOST)


@dataclass(frozen=True, kw_only=True)
class Copies:
    """One direction.

    Attributes:
        n: copies.
        n_bytes: of all; None where the file tells no bytes.
        time_s: of all.
        share: of the time looked at.
    """

    n: int
    n_bytes: int | None
    time_s: float
    share: float


@dataclass(frozen=True, kw_only=True)
class DeviceWork:
    """One file.

    Attributes:
        where: what the units of work are: kernels of a device, or operators of the host.
        time_s: that is looked at: the steps, or from first to last.
        n_steps: None where the profile knows none.
        n_units: kernels or operators; operators inside another one are not counted.
        units_per_s: how many begin in a second.
        unit_median_s: what the median one takes; None without any.
        busy_share: of the time, in which at least one runs (a copy does not count).
        longest_gap_s: between two, within a step where there are steps; None with less than two.
        copies: by direction; empty on the host.
        n_launches: calls that launch; None where the file tells none.
        launch_share: of the time, spent by the host in launching.
        sync_share: of the time, spent by the host waiting for the device; None without calls.
    """

    where: Literal["device", "host"]
    time_s: float
    n_steps: int | None
    n_units: int
    units_per_s: float
    unit_median_s: float | None
    busy_share: float
    longest_gap_s: float | None
    copies: dict[str, Copies]
    n_launches: int | None
    launch_share: float | None
    sync_share: float | None

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return asdict(self)


def device_work(events: pd.DataFrame) -> DeviceWork | None:
    """Count one profile's work; None where there is none in it."""
    where, units = units_of(events)
    copies = events[events["category"] == "copy"]
    if units.empty and copies.empty:
        return None
    inside, time_s, n_steps = within_steps(events)
    units, copies = inside(units), inside(copies)
    begins = units["start_s"].to_numpy()
    ends = begins + units["duration_s"].to_numpy()
    launches, syncs = (inside(events[events["category"] == each]) for each in ("launch", "sync"))
    has_calls = events["category"].isin(["launch", "sync"]).any()
    return DeviceWork(
        where=where,
        time_s=time_s,
        n_steps=n_steps,
        n_units=len(units),
        units_per_s=len(units) / time_s,
        unit_median_s=float(units["duration_s"].median()) if len(units) else None,
        busy_share=covered_s(begins, ends) / time_s,
        longest_gap_s=_longest_gap_s(begins, ends),
        copies={each: _copies(copies, each, time_s) for each in DIRECTIONS} if len(copies) else {},
        n_launches=len(launches) if has_calls else None,
        launch_share=float(launches["duration_s"].sum()) / time_s if has_calls else None,
        sync_share=float(syncs["duration_s"].sum()) / time_s if has_calls else None,
    )


def units_of(events: pd.DataFrame) -> tuple[Literal["device", "host"], pd.DataFrame]:
    """The units of work by start: kernels and device collectives, or outermost operators."""
    if (events["category"] == "kernel").any():
        return "device", events[events["category"].isin(["kernel", "collective"])]
    operators = events[events["category"] == "op"]
    ends = (operators["start_s"] + operators["duration_s"]).groupby(operators["lane"]).cummax()
    before = ends.groupby(operators["lane"]).shift()
    return "host", operators[~(operators["start_s"] < before)]


def within_steps(
    events: pd.DataFrame,
) -> tuple[Callable[[pd.DataFrame], pd.DataFrame], float, int | None]:
    """A function that keeps what begins inside a step, the time of all steps, and their number."""
    steps = events[events["category"] == "step"]
    begins = steps["start_s"].to_numpy()
    ends = begins + steps["duration_s"].to_numpy()
    if not len(steps) or not covered_s(begins, ends):
        first = events["start_s"].min()
        last = (events["start_s"] + events["duration_s"]).max()
        time_s = float(last - first) if len(events) else 0.0
        return (lambda frame: frame), max(time_s, 1e-9), None

    def inside(frame: pd.DataFrame) -> pd.DataFrame:
        place = np.searchsorted(begins, frame["start_s"].to_numpy(), side="right") - 1
        kept: pd.DataFrame = frame[(place >= 0) & (frame["start_s"].to_numpy() < ends[place])]
        return kept

    return inside, covered_s(begins, ends), len(steps)


def covered_s(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> float:
    """How long at least one of these was there; begins in order."""
    if not len(begins):
        return 0.0
    latest = np.maximum.accumulate(ends)
    from_ = np.maximum(begins, np.concatenate([[-np.inf], latest[:-1]]))
    return float(np.maximum(latest - from_, 0.0).sum())


def _longest_gap_s(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> float | None:
    if len(begins) < 2:
        return None
    return max(0.0, float((begins[1:] - np.maximum.accumulate(ends)[:-1]).max()))


def _copies(copies: pd.DataFrame, direction: str, time_s: float) -> Copies:
    chosen = copies[copies["name"] == direction]
    told = chosen["n_bytes"].dropna()
    spent_s = float(chosen["duration_s"].sum())
    return Copies(
        n=len(chosen),
        n_bytes=int(told.sum()) if len(told) == len(chosen) else None,
        time_s=spent_s,
        share=spent_s / time_s,
    )
