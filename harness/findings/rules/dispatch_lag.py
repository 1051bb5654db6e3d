"""The load generator itself was late: what it added must stay small beside what it measured."""

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.metrics.latency import LATENCIES, dispatch_lag_s

FLOOR_S = 0.001
SHARE_OF_TAIL = 0.01


def check(evidence: Evidence) -> list[Doubt]:
    """`invalid-client` where the lag's P99 exceeds 1 ms and 1 % of the cell's own quantile."""
    analysis = evidence.scenario.analysis
    metric = "e2e_s" if analysis.metric in ("itl_s", "tpot_s") else analysis.metric
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_rows(cell)
        if rows.empty:
            continue
        lag = float(np.nanquantile(dispatch_lag_s(rows), 0.99, method="higher"))
        values = LATENCIES[metric](rows)
        if not np.isfinite(values).any():
            continue
        tail = float(np.nanquantile(values, analysis.q, method="higher"))
        limit = max(FLOOR_S, SHARE_OF_TAIL * tail)
        if lag > limit:
            text = (
                f"the load generator was late by {lag * 1e3:.2f} ms at its P99; "
                f"at most {limit * 1e3:.2f} ms may be added to what is measured here"
            )
            doubts.append(Doubt(cell=cell.id, text=text, effect="invalid-client"))
    return doubts
