"""The same few tiny kernels over and over: a loop over pairs where one large kernel would do.

Candidates' similarity computed pair by pair looks like this. A model's layers do not: their small
kernels stand between large ones, or are of many names.
"""

from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.findings.device_work import units_of, within_steps
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short

TINY_S: Final[dict[Literal["device", "host"], float]] = {"device": 20e-6, "host": 100e-6}
LEAST_RUN: Final = 100
"""Tiny ones in a row."""
MOST_NAMES: Final = 8
"""Different names in a run."""
LIMIT: Final = 0.1
"""Share of the time that such runs span, gaps included."""


def check(context: Context) -> Symptom | None:
    """The profile with the largest share of such runs."""
    found = (_look(file, events) for file, events in context.profiles.items())
    return max((each for each in found if each), key=lambda each: each.strength, default=None)


def _look(file: str, events: pd.DataFrame) -> Symptom | None:
    inside, time_s, _ = within_steps(events)
    where, units = units_of(events)
    units = inside(units)
    begins = units["start_s"].to_numpy()
    ends = begins + units["duration_s"].to_numpy()
    names = units["name"].to_numpy()
    # By the median of the name: one that was interrupted does not end a run.
    usual_s = units.groupby("name")["duration_s"].transform("median").to_numpy()
    runs = [
        (first, last)
        for first, last in _runs(usual_s < TINY_S[where])
        if len(set(names[first:last])) <= MOST_NAMES
    ]
    share = float(sum(ends[last - 1] - begins[first] for first, last in runs)) / time_s
    if not runs or share <= LIMIT:
        return None
    n = sum(last - first for first, last in runs)
    busy_s = float(sum((ends - begins)[first:last].sum() for first, last in runs))
    most = pd.Series(np.concatenate([names[a:b] for a, b in runs])).value_counts().index[0]
    what = "kernels" if where == "device" else "operators"
    return Symptom(
        name="tiny_kernels",
        seen=(
            f"{file}: {n:,} tiny {what} in {len(runs):,} runs of at least {LEAST_RUN}, most often "
            f"{short(str(most), 60)}; the runs span {share:.0%} of the time"
        ),
        cause=(
            "a loop launches work pair by pair or row by row, such as the similarity of each "
            "candidate to each other: launching costs more than computing"
        ),
        fix=(
            "compute all pairs at once (one matrix product of normalised rows), or capture the "
            "loop in a graph"
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(what="share of the time in such runs", value=share, unit="share"),
            Figure(what=f"tiny {what}", value=float(n)),
            Figure(
                what="share of the runs in which one ran",
                value=busy_s / (share * time_s),
                unit="share",
            ),
        ),
    )


def _runs(is_tiny: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and past-last place of every run that is long enough."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_tiny.astype(np.int8), [0]])))
    return [(a, b) for a, b in edges.reshape(-1, 2).tolist() if b - a >= LEAST_RUN]
