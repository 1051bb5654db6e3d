"""Whether a jump shows in rows that took no part in finding it: the same cells on a fresh start.

A place that was chosen because it looked steep looks steep by chance as well; what is measured
afterwards does not.
"""

import math

import pandas as pd
from scipy.special import ndtri

from harness.findings.enough import is_positive, metric_segments
from harness.findings.evidence import Evidence
from harness.findings.finding import Cell, Confirmed
from harness.stats.cell_quantile import cell_quantiles


def confirm_jump(
    evidence: Evidence, below: Cell, above: Cell, confidence: float
) -> Confirmed | None:
    """The step between both cells by fresh rows alone; None where there are none.

    Both cells lie so near to each other that a curve without a jump moves little between them.
    """
    parts = [_fresh(evidence, cell) for cell in (below, above)]
    segments = [metric_segments(rows, evidence.scenario.analysis.metric) for rows in parts]
    if not all(map(is_positive, segments)):
        return None
    low, high = cell_quantiles(segments, evidence.scenario.analysis.q)
    step = high.log_value - low.log_value
    error = float(ndtri((1 + confidence) / 2)) * math.hypot(low.se, high.se)
    if not math.isfinite(step) or not math.isfinite(error):
        return None
    return Confirmed(
        effect=math.expm1(step), low=math.expm1(step - error), high=math.expm1(step + error),
        n=sum(map(len, parts)),
    )  # fmt: skip


def _fresh(evidence: Evidence, cell: Cell) -> pd.DataFrame:
    rows = evidence.cell_rows(evidence.plan.cell(cell.id))
    return rows[rows["segment"].isin(evidence.segments_for(cell.id, "confirm"))]
