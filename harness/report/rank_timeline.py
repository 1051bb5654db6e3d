"""The picture of ranks that wait for each other: a lane a rank, wait and transfer apart.

Shows the collectives around the longest wait; a triangle marks who came last. A PNG of its own, for
the trace verb.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl
import pandas as pd

from harness.report import palette

MOST_SHOWN: Final = 12
WAIT: Final = palette.ROLES["phase-3"].light
TRANSFER: Final = palette.ROLES["measured"].light


def draw(meetings: pd.DataFrame, path: Path) -> None:
    """Write a PNG of `RankTable.meetings`."""
    shown = _around_the_worst(meetings)
    origin_s = shown["ready_s"].min()
    ranks = sorted(shown["rank"].unique())
    with mpl.rc_context({"font.size": 11}):
        from matplotlib.figure import Figure  # noqa: PLC0415 - drawing is asked for rarely

        figure = Figure(figsize=(11, 1.6 + 0.5 * len(ranks)), layout="constrained")
        axes = figure.subplots()
        for height, rank in enumerate(ranks):
            lane = shown[shown["rank"] == rank]
            begins = (lane["ready_s"] - origin_s) * 1e3
            waits = lane["wait_s"] * 1e3
            ends = (lane["end_s"] - origin_s) * 1e3
            is_first = height == 0
            axes.barh(
                [height] * len(lane), waits, left=begins, height=0.6, color=WAIT, hatch="//",
                edgecolor="white", label="waits for the last" if is_first else None,
            )  # fmt: skip
            axes.barh(
                [height] * len(lane), (ends - begins - waits).clip(lower=0), left=begins + waits,
                height=0.6, color=TRANSFER, label="transfer" if is_first else None,
            )  # fmt: skip
        last = shown[shown["is_last"]]
        axes.plot(
            (last["ready_s"] - origin_s) * 1e3, last["rank"].map(ranks.index) - 0.42, "v",
            color="black", markersize=6, label="came last",
        )  # fmt: skip
        axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
        axes.invert_yaxis()
        axes.set_xlabel("ms, on the first rank's clock")
        n_all = meetings["collective"].nunique()
        axes.set_title(
            f"{shown['collective'].nunique()} of {n_all} collectives, longest wait among them"
        )
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, dpi=150, metadata={"Software": None})


def _around_the_worst(meetings: pd.DataFrame) -> pd.DataFrame:
    worst = int(meetings["collective"].to_numpy()[meetings["wait_s"].to_numpy().argmax()])
    most = int(meetings["collective"].max())
    first = max(0, min(worst - MOST_SHOWN // 2, most - MOST_SHOWN + 1))
    return meetings[meetings["collective"].between(first, first + MOST_SHOWN - 1)]
