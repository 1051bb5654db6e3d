"""Who was late to a barrier, told by stamps of clocks that do not agree.

No rank leaves a transfer that needs every rank before the last has come, and the fastest leaves
follow at once; so the ends align the clocks, as fastest answers do in network time. The beginnings
then say who came last and how long the others waited.
Source: Mills, Internet time synchronization, 1991 (the clock filter: take the least delay).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter, minimum_filter1d
from scipy.stats import binom

from harness.stats.goodness import holm

WINDOW = 51
"""Meetings around one, of which each rank's fastest leave counts there: clocks drift."""


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """Meetings of the same ranks, on one clock.

    Attributes:
        offset_s: (n_meetings, n_ranks) clock of the rank less that of the first.
        ready_s: (n_meetings, n_ranks) arrival, by the first rank's clock.
        wait_s: (n_meetings, n_ranks) until the last was there; never longer than the rank's stay.
        error_s: of the offsets, if no rank's fastest leave is later than another's by more than a
            transfer takes: the shortest stay of all.
        last: (n_meetings,) place of the last rank; -1 where the second is closer than the error.
        margin_s: (n_meetings,) from the second last to the last.
    """

    offset_s: NDArray[np.float64]
    ready_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    error_s: float
    last: NDArray[np.intp]
    margin_s: NDArray[np.float64]


def meet(ready: ArrayLike, end: ArrayLike) -> Barrier:
    """Align the clocks by the ends and find who was last.

    Shapes: ready and end (n_meetings, n_ranks), a meeting a row in the order of time.
    Units: seconds, each column by its own clock.

    Raises:
        ValueError: shapes differ, nobody met, or an end lies before its beginning.
    """
    begins, ends = np.asarray(ready, dtype=float), np.asarray(end, dtype=float)
    if begins.shape != ends.shape or begins.ndim != 2 or 0 in begins.shape or begins.shape[1] < 2:
        msg = f"got {begins.shape} and {ends.shape}, allowed twice (n_meetings, n_ranks >= 2)"
        raise ValueError(msg)
    if not (ends >= begins).all():
        raise ValueError("an end lies before its beginning, or is no number")
    offset = _offsets(begins, ends)
    there = begins - offset
    order = np.argsort(there, axis=1, kind="stable")
    rows = np.arange(len(there))
    last, second = order[:, -1], order[:, -2]
    margin = there[rows, last] - there[rows, second]
    error_s = float((ends - begins).min())
    return Barrier(
        offset_s=offset,
        ready_s=there,
        wait_s=np.minimum(there[rows, last][:, None] - there, ends - begins),
        error_s=error_s,
        last=np.where(margin > error_s, last, -1),
        margin_s=margin,
    )


def lateness_p(n_last: ArrayLike, n_told: int) -> list[float]:
    """Chance of having been last so often, were every rank as likely; over all ranks by Holm.

    Shapes: n_last (n_ranks,), of `n_told` meetings in which somebody was last.
    """
    counts = np.asarray(n_last)
    return holm([float(binom.sf(k - 1, n_told, 1 / len(counts))) for k in counts])


def _offsets(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each rank's fastest leave after the last arrival, less that of the first rank."""
    roughly = _running_median(ends - ends[:, :1])
    last = (begins - roughly).max(axis=1, keepdims=True)
    fastest = minimum_filter1d(ends - last, WINDOW, axis=0, mode="nearest")
    offset: NDArray[np.float64] = fastest - fastest[:, :1]
    return offset


def _running_median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    filtered: NDArray[np.float64] = median_filter(values, size=(WINDOW, 1), mode="nearest")
    return filtered
