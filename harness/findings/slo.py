"""A run against an SLO file: each objective in each cell is kept, missed or undecided.

A request that failed, or was never answered, is a bad one: it was not within the limit. Kept and
missed are said only where the whole interval of the good share lies on one side of the target.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.base.errors import ExitCode
from harness.findings.enough import metric_segments
from harness.findings.evidence import OK_OUTCOMES, Evidence
from harness.findings.finding import Cell, Estimate, Factor, Number, Part
from harness.metrics.latency import LATENCIES
from harness.metrics.throughput import STRETCH
from harness.records.request import Outcome
from harness.scenario.slo import Objective, Slo
from harness.stats.ess import indicator_ess
from harness.stats.quantile_ci import n_for_finite
from harness.stats.share_ci import ShareInterval, share_interval

Kept = Literal["kept", "missed", "undecided"]


class Judged(Part):
    """One objective in one cell.

    Attributes:
        cell: where; None for the whole run.
        good: share of good requests with its interval; None where nothing was measured.
        n: requests that were judged (gaps between tokens for `itl_s`).
        reason: why it is undecided; empty otherwise.
    """

    objective: str
    metric: str
    limit_s: Number
    target: float
    cell: str | None
    factors: dict[str, Factor]
    n: int
    n_effective: Number
    good: Estimate | None
    verdict: Kept
    reason: str = ""


def judge_objectives(slo: Slo, evidence: Evidence, cells: Sequence[Cell]) -> list[Judged]:
    """Latencies in every cell, availability over the whole run, in the file's order.

    Each interval holds by itself for *kept*, which needs all; for *missed*, which needs one, they
    hold together (Bonferroni).
    """
    asked = [
        (objective, part)
        for objective in slo.objectives
        for part in ([list(cells)] if objective.metric == "availability" else [[c] for c in cells])
    ]
    return [_judge(objective, evidence, part, len(asked)) for objective, part in asked]


def exit_code(judged: Sequence[Judged]) -> ExitCode:
    """What a gate ends with: a miss is sure, whatever else is undecided."""
    verdicts = {each.verdict for each in judged}
    if "missed" in verdicts:
        return ExitCode.SLO_MISSED
    return ExitCode.UNDECIDED if "undecided" in verdicts else ExitCode.PASS


def _judge(objective: Objective, evidence: Evidence, cells: Sequence[Cell], n_tests: int) -> Judged:
    usable = [cell for cell in cells if cell.state != "invalid-client"]
    segments = [part for cell in usable for part in _times(objective, evidence, cell)]
    values = np.concatenate(segments) if segments else np.empty(0)
    if not values.size:
        reason = next((c for cell in cells for c in cell.caveats), "nothing was measured")
        return _judged(objective, cells, None, "undecided", reason)
    n_effective = indicator_ess(segments, objective.target).n_effective
    limit = 0.0 if objective.limit_s is None else objective.limit_s
    confidence = evidence.scenario.analysis.confidence
    good = share_interval(values <= limit, confidence, n_effective)
    sure = share_interval(values <= limit, 1 - (1 - confidence) / n_tests, n_effective)
    if sure.high < objective.target:
        return _judged(objective, cells, good, "missed")
    if good.low >= objective.target:
        return _judged(objective, cells, good, "kept")
    return _judged(objective, cells, good, "undecided", _why(objective, good, confidence))


def _times(objective: Objective, evidence: Evidence, cell: Cell) -> list[NDArray[np.float64]]:
    """What is held against the limit, one array a stretch: infinite for a request that failed.

    Availability is 0 for an answer and infinite for none. Gaps between tokens exist only in answers
    that came.
    """
    (planned,) = (each for each in evidence.plan.cells if each.id == cell.id)
    if objective.metric == "itl_s":
        return metric_segments(evidence.cell_rows(planned), "itl_s")
    rows = evidence.cell_measured(planned)
    rows = rows[rows["outcome"] != Outcome.CANCELLED.value].sort_values(
        ["segment", "session", "intended_ns"], kind="stable"
    )
    is_ok = rows["outcome"].isin(OK_OUTCOMES).to_numpy()
    times = np.zeros(len(rows))
    if objective.metric != "availability":
        times = LATENCIES[objective.metric](rows)
    held = np.where(is_ok & np.isfinite(times), times, np.inf)
    return [held[at] for at in rows.groupby(list(STRETCH), sort=False).indices.values()]


def _judged(
    objective: Objective,
    cells: Sequence[Cell],
    good: ShareInterval | None,
    verdict: Kept,
    reason: str = "",
) -> Judged:
    (cell,) = cells if len(cells) == 1 else (None,)
    return Judged(
        objective=objective.name,
        metric=objective.metric,
        limit_s=objective.limit_s,
        target=objective.target,
        cell=cell.id if cell else None,
        factors=dict(cell.factors) if cell else {},
        n=good.n if good else 0,
        n_effective=good.n_effective if good else None,
        good=Estimate(value=good.value, low=good.low, high=good.high) if good else None,
        verdict=verdict,
        reason=reason,
    )


def _why(objective: Objective, good: ShareInterval, confidence: float) -> str:
    """Why the interval holds the target: too few requests to ever keep it, or too close to it."""
    needed = n_for_finite(objective.target, confidence)
    if good.n_effective < needed:
        return f"{good.n_effective:.0f} independent requests; the target needs {needed}"
    return "the interval holds the target: more requests would tell"
