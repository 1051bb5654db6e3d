"""Whether a cell has been measured enough, and what may be said of it then.

Layer after layer: what warms up is cut, the rate of slow requests has to be even, values count with
their effective size, the interval may be looked at after every round, starts have to agree, and
what cannot reach its target within the budget is not waited for. Whether the load generator was
sound is not asked here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from harness.stats.agreement import r_hat
from harness.stats.caveat import Caveat, CaveatKind
from harness.stats.cell_quantile import cell_quantile
from harness.stats.confidence_sequence import (
    n_for_finite_sequence,
    prior_size,
    sequential_interval,
)
from harness.stats.ess import EffectiveSize, indicator_ess, indicator_threshold
from harness.stats.quantile_ci import QuantileInterval, finite_or_inf, require_share
from harness.stats.stationarity import Stationarity, Trend, stationarity, warm_up

Array = NDArray[np.float64]
LEAST_VALUES: Final = 20
"""Fewer say nothing of trends or clusters."""


class State(StrEnum):
    """How a cell stands at its end."""

    CONVERGED = "converged"
    WIDE = "wide"
    NONSTATIONARY = "nonstationary"
    SATURATED = "saturated"


class Agreement(StrEnum):
    """How alike starts have to be."""

    STRICT = "strict"
    LOOSE = "loose"


R_HAT_LIMIT: Final = {Agreement.STRICT: 1.01, Agreement.LOOSE: 1.05}
LOOSE_ESS: Final = 500.0


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What is known of a cell by now.

    Attributes:
        state: how it ended; None where more is needed.
        interval: of the quantile, valid at all looks together, with what moves between starts.
        half_width: half of the interval, as a share of the value; inf where a bound is open.
        n_needed: further values predicted to reach the target; None where nothing reaches it.
        n_cut: values cut as warm-up.
        n_starts: starts of the server that the values come from.
        r_hat: disagreement of the starts; None with one.
        caveats: what limits it.
    """

    state: State | None
    interval: QuantileInterval
    half_width: float
    n_needed: int | None
    n_cut: int
    n_starts: int
    r_hat: float | None
    caveats: tuple[Caveat, ...]


def judge_cell(
    starts: Sequence[Sequence[ArrayLike]],
    q: float,
    *,
    half_width: float,
    planned: int,
    n_left: int,
    confidence: float = 0.95,
    agreement: Agreement = Agreement.STRICT,
    least_starts: int = 1,
) -> Stop:
    """Judge a cell by everything measured so far.

    `planned` is what the cell was meant to take, fixed before its first look: it tunes the bounds.
    `n_left` is what it may still take: a target beyond that is not waited for. `least_starts` are
    asked for before a cell has converged.

    Shapes: starts[i][j] is (n_ij,): segment j of start i, in order of time.
    Units: half_width is a share of the quantile.

    Raises:
        ValueError: no value, NaN among them, or q, confidence, half_width or planned out of range.
    """
    require_share(q, "q")
    require_share(confidence, "confidence")
    require_share(half_width, "half_width")
    if planned < 1:
        msg = f"planned: got {planned}, allowed at least 1"
        raise ValueError(msg)
    parts, n_cut = _without_warm_up(starts, q)
    segments = [segment for start in parts for segment in start]
    size = indicator_ess(segments, q)
    planned_effective = planned * size.n_effective / size.n
    within = sequential_interval(
        np.concatenate(segments), q, confidence=confidence, n_effective=size.n_effective,
        planned=planned_effective,
    )  # fmt: skip
    interval = _with_starts(within, parts, q)
    reached = _half_width(interval)
    threshold = indicator_threshold(segments, size)
    disagreement = r_hat([np.concatenate(start) for start in parts], threshold)
    trend = stationarity(segments, q) if size.n >= LEAST_VALUES else None
    needed = _n_needed(interval, reached, half_width, size, q, confidence, planned_effective)
    state = _state(
        trend, is_narrow=reached <= half_width, is_alike=_is_alike(disagreement, agreement, size)
        and len(parts) >= least_starts,
        is_futile=needed is None or needed > n_left, n_left=n_left,
    )  # fmt: skip
    return Stop(
        state=state,
        interval=interval,
        half_width=reached,
        n_needed=needed,
        n_cut=n_cut,
        n_starts=len(parts),
        r_hat=disagreement,
        caveats=(*interval.caveats, *_caveats(size, trend, disagreement, agreement, len(parts))),
    )


def _without_warm_up(
    starts: Sequence[Sequence[ArrayLike]], q: float
) -> tuple[list[list[Array]], int]:
    """Checked values without what is slower at a segment's begin, and how many were cut."""
    given = [
        [finite_or_inf(part, f"start {i}, segment {j}") for j, part in enumerate(start)]
        for i, start in enumerate(starts)
        if start
    ]
    if not given:
        msg = "starts: got none with a segment, allowed at least one"
        raise ValueError(msg)
    segments = [part for start in given for part in start]
    threshold = indicator_threshold(segments, indicator_ess(segments, q))
    kept = [[part[warm_up(part, threshold) :] for part in start] for start in given]
    return kept, sum(map(len, segments)) - sum(len(part) for start in kept for part in start)


def _with_starts(
    interval: QuantileInterval, starts: list[list[Array]], q: float
) -> QuantileInterval:
    """The interval widened by what moves between starts beyond their own sampling error.

    On the log scale the two parts add as squares: each bound's distance d becomes
    sqrt(d^2 + z^2 s^2 / k) with k starts that scatter by s.
    """
    values = [np.concatenate(start) for start in starts]
    if len(values) < 2 or min(map(np.min, values)) <= 0 or interval.value <= 0:
        return interval
    moved = cell_quantile(values, q).segment_sd
    if not moved > 0:
        return interval
    extra = float(ndtri((1 + interval.confidence) / 2)) * moved / math.sqrt(len(values))
    return replace(
        interval,
        low=_further(interval.value, interval.low, extra),
        high=_further(interval.value, interval.high, extra),
    )


def _further(value: float, bound: float, extra: float) -> float:
    if not (math.isfinite(bound) and bound > 0 and math.isfinite(value)):
        return bound
    distance = math.log(bound / value)
    return value * math.exp(math.copysign(math.hypot(distance, extra), bound - value or 1.0))


def _half_width(interval: QuantileInterval) -> float:
    width = interval.high - interval.low
    if not (math.isfinite(width) and math.isfinite(interval.value) and interval.value > 0):
        return math.inf
    return width / 2 / interval.value


def _n_needed(
    interval: QuantileInterval,
    reached: float,
    wanted: float,
    size: EffectiveSize,
    q: float,
    confidence: float,
    planned: float,
) -> int | None:
    """Values still missing: widths shrink as one over the root of the number; None: never.

    Where only the lower bound is finite, its distance stands for both.
    """
    if reached <= wanted:
        return 0
    if not math.isfinite(interval.value) or interval.value <= 0:
        return None
    to_close = 1
    if not math.isfinite(reached):
        finite = n_for_finite_sequence(q, confidence, prior_size(planned))
        to_close = math.ceil(finite * size.tau) - size.n
        reached = max(0.0, 1 - max(interval.low, 0.0) / interval.value)
    return max(1, to_close, math.ceil(size.n * ((reached / wanted) ** 2 - 1)))


def _is_alike(disagreement: float | None, agreement: Agreement, size: EffectiveSize) -> bool:
    if disagreement is None:
        return True
    if agreement is Agreement.LOOSE and size.n_effective <= LOOSE_ESS:
        return False
    return disagreement <= R_HAT_LIMIT[agreement]


def _state(
    trend: Stationarity | None, *, is_narrow: bool, is_alike: bool, is_futile: bool, n_left: int
) -> State | None:
    if trend is not None and trend.inside is Trend.UP:
        return State.SATURATED
    if trend is not None and (trend.across is not Trend.NONE or trend.inside is Trend.DOWN):
        return State.NONSTATIONARY
    if is_narrow and is_alike:
        return State.CONVERGED
    if n_left <= 0 or (is_futile and not is_narrow):
        return State.WIDE
    return None


def _caveats(
    size: EffectiveSize,
    trend: Stationarity | None,
    disagreement: float | None,
    agreement: Agreement,
    n_starts: int,
) -> list[Caveat]:
    found = []
    if size.tau > 2:
        text = f"Slow requests cluster: {size.n} values are worth {size.n_effective:.0f}."
        found.append(Caveat(CaveatKind.AUTOCORRELATED, text))
    if trend is not None:
        found += _trend_caveats(trend)
    if n_starts == 1:
        text = "Measured on one start of the server: what moves between starts is not in the error."
        found.append(Caveat(CaveatKind.ONE_START, text))
    elif disagreement is not None and disagreement > R_HAT_LIMIT[agreement]:
        text = (
            f"The {n_starts} starts do not agree: R-hat {disagreement:.3f}, allowed "
            f"{R_HAT_LIMIT[agreement]:g}."
        )
        found.append(Caveat(CaveatKind.STARTS_DISAGREE, text))
    return found


def _trend_caveats(trend: Stationarity) -> list[Caveat]:
    found = []
    for where, word, ratio in (
        ("within segments", trend.inside, trend.ratio_inside),
        ("over the run", trend.across, trend.ratio_across),
    ):
        if word is not Trend.NONE:
            text = f"Slow requests become {ratio:.2g} times as frequent {where}."
            found.append(Caveat(CaveatKind.NONSTATIONARY, text))
    return found
