"""Candidates go to the host and back within a step: the device waits for two copies and the host.

A step must tell the host a few token ids, so that only large round trips count.
"""

from typing import Final

import numpy as np
import pandas as pd

from harness.findings.device_work import within_steps
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.records.profile import DEVICE_TO_HOST, HOST_TO_DEVICE

LEAST_BYTES: Final = 64 << 10
"""Of either copy of a round trip."""
LIMIT: Final = 0.05
"""Share of the time from the first copy's beginning to the second's end."""


def check(context: Context) -> Symptom | None:
    """The profile with the largest share of round trips."""
    found = (_look(file, events) for file, events in context.profiles.items())
    return max((each for each in found if each), key=lambda each: each.strength, default=None)


def _look(file: str, events: pd.DataFrame) -> Symptom | None:
    inside, time_s, n_steps = within_steps(events)
    copies = inside(events[events["category"] == "copy"])
    copies = copies[copies["name"].isin([DEVICE_TO_HOST, HOST_TO_DEVICE])]
    is_large = (copies["n_bytes"].fillna(0) >= LEAST_BYTES).to_numpy()
    is_down = (copies["name"] == DEVICE_TO_HOST).to_numpy()
    trips = np.flatnonzero(is_down[:-1] & ~is_down[1:] & is_large[:-1] & is_large[1:])
    if not len(trips):
        return None
    begins = copies["start_s"].to_numpy()
    ends = begins + copies["duration_s"].to_numpy()
    share = float((ends[trips + 1] - begins[trips]).sum()) / time_s
    if share <= LIMIT:
        return None
    n_bytes = float(
        copies["n_bytes"].to_numpy(dtype=float)[np.concatenate([trips, trips + 1])].sum()
    )
    often = (
        f"{len(trips) / n_steps:.3g} a step" if n_steps else f"{len(trips) / time_s:.3g} a second"
    )
    return Symptom(
        name="candidate_copies",
        seen=(
            f"{file}: {len(trips):,} round trips from the device to the host and back, {often}, of "
            f"{n_bytes / len(trips) / 1e6:.3g} MB; they span {share:.0%} of the time"
        ),
        cause="candidates or their logits are worked on by the host in the middle of a step",
        fix=(
            "keep them on the device: sample, penalise and prune there; what the host must know "
            "(token ids) copy once a step, to pinned memory, without waiting"
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(what="share of the time in round trips", value=share, unit="share"),
            Figure(what="round trips", value=float(len(trips))),
            Figure(what="copied by them", value=n_bytes, unit="bytes"),
        ),
    )
