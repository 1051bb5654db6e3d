"""The load generator itself was late: what it added must stay small beside what it measured.

The lag is part of every latency (it counts from the intended send), so it moves a quantile by at
most its own tail. Past 1 ms and 1 % of the cell's quantile that is said; past half of the smallest
jump that the scenario asks to see, the cell cannot support a finding.
"""

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.metrics.latency import LATENCIES, dispatch_lag_s

FLOOR_S = 0.001
SAID_SHARE = 0.01
LAG_Q = 0.99


def check(evidence: Evidence) -> list[Doubt]:
    """A caveat, or `invalid-client`, per cell whose P99 of dispatch lag is past its limit."""
    analysis = evidence.scenario.analysis
    metric = "e2e_s" if analysis.metric in ("itl_s", "tpot_s") else analysis.metric
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_rows(cell)
        values = LATENCIES[metric](rows)
        if not np.isfinite(values).any():
            continue
        lag = float(np.nanquantile(dispatch_lag_s(rows), LAG_Q, method="higher"))
        tail = float(np.nanquantile(values, analysis.q, method="higher"))
        if lag <= max(FLOOR_S, SAID_SHARE * tail):
            continue
        limit = max(FLOOR_S, analysis.min_jump / 2 * tail)
        text = (
            f"the load generator was late by {lag * 1e3:.1f} ms at its P99, beside "
            f"{tail * 1e3:.0f} ms measured"
        )
        if lag > limit:
            text += f"; more than {limit * 1e3:.1f} ms voids the cell: free a core and run again"
            doubts.append(Doubt(cell=cell.id, text=text, effect="invalid-client"))
        else:
            doubts.append(Doubt(cell=cell.id, text=text))
    return doubts
