"""Rates over a cell's segments: completed and sent requests per second of segment time.

A segment that a crash cut in two is two stretches: sessions do not share a clock, and the time
between them belongs to no rate.
"""

import numpy as np
import pandas as pd

NS = 1e9
STRETCH = ("segment", "session")
"""What names a piece of the run within which stamps may be compared."""


def segment_seconds(rows: pd.DataFrame) -> float | None:
    """Summed duration of the stretches: first send to last end in each; None without an end."""
    ended = rows.dropna(subset=["sent_ns", "done_ns"])
    if ended.empty:
        return None
    spans = ended.groupby(list(STRETCH)).agg(start=("sent_ns", "min"), end=("done_ns", "max"))
    return float((spans["end"] - spans["start"]).sum() / NS)


def rate_rps(n: int, seconds: float | None) -> float | None:
    """Requests per second; None where no time passed."""
    return n / seconds if seconds else None


def offered_rps(rows: pd.DataFrame) -> float | None:
    """Rate the plan asked for, from the spread of intended sends inside stretches."""
    return _spread_rps(rows, "intended_ns")


def sent_rps(rows: pd.DataFrame) -> float | None:
    """Rate that was really sent, from the spread of sends inside stretches."""
    sent = rows.dropna(subset=["sent_ns"])
    if sent.empty:
        return None
    return _spread_rps(sent, "sent_ns")


def _spread_rps(rows: pd.DataFrame, stamp: str) -> float | None:
    """Gaps between the stamps of each stretch over the time from its first to its last."""
    spans = rows.groupby(list(STRETCH))[stamp].agg(["min", "max", "count"])
    seconds = float((spans["max"] - spans["min"]).sum() / NS)
    n_gaps = int(np.maximum(spans["count"] - 1, 0).sum())
    return rate_rps(n_gaps, seconds)
