"""What one profiler file says, whoever wrote it: a row an event, in seconds and bytes.

Readers are in `harness.importers`; what is made of it is in `harness.findings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import pandas as pd

Category = Literal["kernel", "copy", "launch", "sync", "op", "span", "step", "collective"]

HOST_TO_DEVICE: Final = "host to device"
DEVICE_TO_HOST: Final = "device to host"


class Event(NamedTuple):
    """One thing with a beginning and an end.

    Attributes:
        category: kernel and copy run on a device; launch, sync (a wait for the device) and op (an
            operator of a framework) on the host; span is what the program itself named, step
            one round of its loop; collective is a transfer between ranks.
        name: a copy's direction, a collective's kind (`all_reduce`), otherwise as found.
        start_s: on the file's own clock.
        n_bytes: None where it is not told.
        lane: thread or stream.
        group: process group of a collective.
        sequence: number of a collective in its group; None where it is not told.
    """

    category: Category
    name: str
    start_s: float
    duration_s: float
    n_bytes: int | None = None
    lane: str = ""
    group: str = ""
    sequence: int | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One file.

    Attributes:
        file: its path, as it was given.
        tool: who wrote it.
        rank: of the process, where it is one of several; None otherwise.
        n_ranks: how many there are; None where it is not told.
        base_ns: unix time of `start_s` 0, by the file's own clock; 0 where it is not told.
        events: a row an event, columns of `Event` and `rank`, by start.
        caveats: what is missing or was left out.
    """

    file: str
    tool: str
    events: pd.DataFrame
    rank: int | None = None
    n_ranks: int | None = None
    base_ns: int = 0
    caveats: tuple[str, ...] = ()

    def of(self, *categories: Category) -> pd.DataFrame:
        """The events of these categories."""
        return self.events[self.events["category"].isin(categories)]


def to_frame(events: Sequence[Event], rank: int | None = None) -> pd.DataFrame:
    """A row an event, by start."""
    frame = pd.DataFrame(events, columns=list(Event._fields))
    frame = frame.astype(
        {"start_s": float, "duration_s": float, "n_bytes": "Int64", "sequence": "Int64"}
    )
    frame["rank"] = pd.Series([rank] * len(frame), dtype="Int64")
    return frame.sort_values("start_s", kind="stable", ignore_index=True)
