"""What is known about each grid cell: quantiles with intervals, outcomes, phases, state."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from harness.base.rng import generator
from harness.findings.enough import judge_enough, metric_segments
from harness.findings.evidence import Evidence, by_segment
from harness.findings.finding import (
    Cell,
    CellState,
    Estimate,
    MetricName,
    Number,
    Quantile,
    StepFigures,
    StopFigures,
    TokenCounts,
)
from harness.findings.quantity import percent
from harness.findings.rules import Doubt
from harness.metrics.components import COMPONENT_NAMES, component_matrix
from harness.metrics.steps import step_rows
from harness.metrics.throughput import rate_rps, segment_seconds, sent_rps
from harness.plan.plan import Cell as PlannedCell
from harness.stats.attribution import rank_components
from harness.stats.cell_intervals import cell_intervals
from harness.stats.quantile_ci import QuantileInterval
from harness.stats.stopping import State, Stop

QUANTILES: tuple[tuple[Quantile, float], ...] = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
METRICS: tuple[MetricName, ...] = (
    "ttft_s",
    "ttfo_s",
    "itl_s",
    "tpot_s",
    "e2e_s",
    "service_ttft_s",
    "service_e2e_s",
)
WORST_FIRST: tuple[CellState, ...] = ("invalid-client", "failed", "partial")


def number(value: float | None) -> Number:
    """Finite numbers stay, everything undefined is null."""
    return None if value is None or not math.isfinite(value) else float(value)


def summarise_cells(evidence: Evidence, doubts: Sequence[Doubt]) -> list[Cell]:
    """Every cell of the plan, in its order, empty ones included."""
    return [
        _summarise(cell, evidence, [doubt for doubt in doubts if doubt.cell == cell.id])
        for cell in evidence.plan.cells
    ]


def _summarise(planned: PlannedCell, evidence: Evidence, doubts: Sequence[Doubt]) -> Cell:
    rows = evidence.cell_rows(planned)
    measured = evidence.cell_measured(planned)
    analysis = evidence.scenario.analysis
    caveats = [doubt.text for doubt in doubts]
    metrics: dict[MetricName, dict[Quantile, Estimate]] = {}
    for metric in METRICS:
        segments = metric_segments(rows, metric)
        if not segments:
            continue
        metrics[metric] = _estimates(segments, analysis.confidence)
    stop = judge_enough(evidence, planned)
    interval = _interval(rows, evidence) if stop is None else stop.interval
    if stop is not None:
        caveats += [caveat.text for caveat in stop.caveats] + _missing(evidence, stop)
        metrics[analysis.metric] |= {
            name: _estimate(stop.interval) for name, q in QUANTILES if q == analysis.q
        }
    elif interval is not None:
        caveats += [caveat.text for caveat in interval.caveats]
    elif len(rows):
        caveats.append(f"{analysis.metric} is undefined for every request of this cell")
    phases_mean, phases_tail = _phases(rows, evidence, planned)
    seconds = segment_seconds(measured)
    return Cell(
        id=planned.id,
        factors=dict(planned.factors),
        state=_state(doubts, stop, is_empty=rows.empty),
        n=len(rows),
        n_effective=number(interval.n_effective) if interval else None,
        outcomes={str(name): int(n) for name, n in measured["outcome"].value_counts().items()},
        metrics=metrics,
        phases_mean_s=phases_mean,
        phases_tail_s=phases_tail,
        sent_rps=number(sent_rps(measured)) if len(measured) else None,
        completed_rps=number(rate_rps(len(rows), seconds)),
        tokens=_tokens(rows),
        steps=_steps(rows, analysis.confidence),
        stop=_stop_figures(stop),
        features=sorted({feature for features in rows["features"] for feature in features}),
        caveats=list(dict.fromkeys(caveats)),
    )


def _interval(rows: pd.DataFrame, evidence: Evidence) -> QuantileInterval | None:
    """Of what is asked; None where it is undefined."""
    analysis = evidence.scenario.analysis
    main = metric_segments(rows, analysis.metric)
    return cell_intervals(main, [analysis.q], analysis.confidence)[0] if main else None


def _estimates(segments: Sequence[np.ndarray], confidence: float) -> dict[Quantile, Estimate]:
    names, levels = zip(*QUANTILES, strict=True)
    found = cell_intervals(segments, levels, confidence)
    return dict(zip(names, map(_estimate, found), strict=True))


def _estimate(interval: QuantileInterval) -> Estimate:
    return Estimate(
        value=number(interval.value), low=number(interval.low), high=number(interval.high)
    )


def _phases(
    rows: pd.DataFrame, evidence: Evidence, planned: PlannedCell
) -> tuple[dict[str, float], dict[str, float]]:
    """Mean seconds per component: over all requests, and over the slowest."""
    metric = evidence.scenario.analysis.metric
    matrix = component_matrix(rows, metric) if len(rows) else None
    if matrix is None:
        return {}, {}
    known = np.isfinite(matrix).all(axis=1)
    if known.sum() < 2:
        return {}, {}
    matrix = matrix[known]
    rng = generator(evidence.plan.seed, "phases", planned.id)
    ranking = rank_components(matrix, matrix.sum(axis=1), evidence.scenario.analysis.q, rng=rng)
    mean = dict(zip(COMPONENT_NAMES, matrix.mean(axis=0).tolist(), strict=True))
    tail = dict(zip(COMPONENT_NAMES, ranking.mean.tolist(), strict=True))
    return _seen(mean), _seen(tail)


def _seen(seconds: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in seconds.items() if abs(value) >= 1e-9}


def _state(doubts: Sequence[Doubt], stop: Stop | None, *, is_empty: bool) -> CellState:
    """The worst that the rules say; else how the cell stands by `[stop]`, wide if undecided."""
    reached = {doubt.effect for doubt in doubts}
    for state in WORST_FIRST:
        if state in reached:
            return state
    if is_empty:
        return "failed"
    return "fixed" if stop is None else (stop.state or State.WIDE).value


def _missing(evidence: Evidence, stop: Stop) -> list[str]:
    """How far a cell is from what was asked, and what it would take."""
    asked = evidence.scenario.stop
    if asked is None or stop.half_width <= asked.half_width:
        return []
    is_bounded = math.isfinite(stop.half_width)
    reached = f"known to {percent(stop.half_width)}" if is_bounded else "without an upper bound"
    more = "no number" if stop.n_needed is None else f"about {stop.n_needed:,} more requests"
    wanted = percent(asked.half_width)
    return [f"The quantile is {reached}, asked was {wanted}: {more} would do."]


def _stop_figures(stop: Stop | None) -> StopFigures | None:
    if stop is None:
        return None
    return StopFigures(
        half_width=number(stop.half_width), n_needed=stop.n_needed, n_starts=stop.n_starts,
        r_hat=number(stop.r_hat), n_cut=stop.n_cut,
    )  # fmt: skip


def _tokens(rows: pd.DataFrame) -> TokenCounts:
    prompt = rows["n_prompt_tokens"].to_numpy(dtype=float, na_value=np.nan)
    output = rows["n_output_tokens"].to_numpy(dtype=float, na_value=np.nan)
    sources = rows["count_source"].dropna().unique().tolist()
    return TokenCounts(
        prompt_mean=number(np.nanmean(prompt)) if np.isfinite(prompt).any() else None,
        output_mean=number(np.nanmean(output)) if np.isfinite(output).any() else None,
        count_source="+".join(sorted(map(str, sources))) or None,
    )


def _steps(rows: pd.DataFrame, confidence: float) -> list[StepFigures]:
    """Figures of each reasoning step, the answer last; none where requests had no steps."""
    steps = step_rows(rows)
    n_steps = int(steps["step"].max()) if len(steps) else 0
    return [
        _step(part, confidence, is_answer=number == n_steps)
        for number, part in steps.groupby("step")
    ]


def _step(rows: pd.DataFrame, confidence: float, *, is_answer: bool) -> StepFigures:
    def estimates(name: str) -> dict[Quantile, Estimate]:
        segments = by_segment(rows, rows[name].to_numpy(dtype=float))
        return _estimates(segments, confidence) if segments else {}

    return StepFigures(
        step=int(rows["step"].iloc[0]),
        is_answer=is_answer,
        n=len(rows),
        ttft_s=estimates("ttft_s"),
        duration_s=estimates("duration_s"),
        tokens_mean=_mean(rows["tokens"]),
        kv_tokens_mean=_mean(rows["kv_tokens"]),
        kv_growth_mean=_mean(rows["kv_growth"]),
    )


def _mean(values: "pd.Series[float]") -> Number:
    return number(float(values.mean()))
