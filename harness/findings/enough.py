"""Whether a cell has been measured enough, by the scenario's `[stop]`."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from harness.findings.evidence import Evidence, by_segment
from harness.metrics.latency import LATENCIES
from harness.metrics.throughput import STRETCH
from harness.plan.plan import Cell
from harness.plan.rounds import n_budget
from harness.stats.stopping import Agreement, Stop, judge_cell

LEAST_STARTS: Final = 2
"""One start agrees with itself; of a target that is not ours to start there is no other."""


def judge_enough(evidence: Evidence, cell: Cell) -> Stop | None:
    """What is known of the cell; None without `[stop]`, or where the metric has no value."""
    scenario = evidence.scenario
    starts = cell_starts(evidence, evidence.cell_rows(cell))
    if scenario.stop is None or not starts:
        return None
    return judge_cell(
        starts,
        scenario.analysis.q,
        half_width=scenario.stop.half_width,
        planned=scenario.load.requests_per_cell,
        n_left=max(0, n_budget(scenario) - evidence.plan.n_measured),
        confidence=scenario.analysis.confidence,
        agreement=Agreement(scenario.stop.agreement),
        least_starts=LEAST_STARTS if evidence.run.get("is_bundled") else 1,
    )


def cell_starts(evidence: Evidence, rows: pd.DataFrame) -> list[list[np.ndarray]]:
    """Values of the analysed metric by start of the server, then by segment, in order of time.

    The bundled server is started afresh for each session; of another target only one is known.
    """
    ordered = rows.sort_values("intended_ns", kind="stable")
    start = ordered["session"] if evidence.run.get("is_bundled") else np.zeros(len(ordered))
    metric = evidence.scenario.analysis.metric
    found = [metric_segments(part, metric) for _, part in ordered.groupby(start)]
    return [segments for segments in found if segments]


def metric_segments(rows: pd.DataFrame, metric: str) -> list[np.ndarray]:
    """Values of a metric, one array per stretch of a segment in order of time.

    ITL has many values per request, so its stretches are built from each stretch's rows.
    """
    if metric != "itl_s":
        return by_segment(rows, LATENCIES[metric](rows))
    parts = [LATENCIES["itl_s"](part) for _, part in rows.groupby(list(STRETCH), sort=False)]
    return [part[np.isfinite(part)] for part in parts if np.isfinite(part).any()]


def is_positive(segments: Sequence[np.ndarray]) -> bool:
    """Whether there are values, all of them fit for a logarithmic scale."""
    return bool(segments) and min(float(part.min()) for part in segments) > 0
