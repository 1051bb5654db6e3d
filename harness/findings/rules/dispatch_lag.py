"""The load generator itself was late: what it added must stay small beside what it measured.

Latencies count from the intended send, so the generator's own lag is part of them. What it added to
a cell's quantile is known exactly: the quantile against the same quantile with each request's lag
taken out. Past 1 % that is said; past half of the smallest jump the scenario asks to see, the cell
cannot support a finding.
"""

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.metrics.latency import LATENCIES, dispatch_lag_s
from harness.metrics.steps import call_lag_s
from harness.plan.plan import Cell

SAID = 0.01
FIRST_CALL = frozenset({"ttft_s", "service_ttft_s"})
"""Latencies that end with a chain's first call: what lay between the calls is not in them."""


def check(evidence: Evidence) -> list[Doubt]:
    """A caveat, or `invalid-client`, per cell whose quantile the lag moved past its limit."""
    limit = void_limit(evidence)
    doubts = []
    for cell in evidence.plan.cells:
        moved = lag_share(evidence, cell)
        if moved is None or moved <= SAID:
            continue
        text = f"the load generator's own lag is {moved:.1%} of this cell's quantile"
        if moved > limit:
            text += f"; more than {limit:.0%} voids the cell: free a core and run again"
            doubts.append(Doubt(cell=cell.id, text=text, effect="invalid-client"))
        else:
            doubts.append(Doubt(cell=cell.id, text=text))
    return doubts


def void_limit(evidence: Evidence) -> float:
    """Half of the smallest jump that the scenario asks to see."""
    return evidence.scenario.analysis.min_jump / 2


def lag_share(evidence: Evidence, cell: Cell) -> float | None:
    """1 - q(latency - lag) / q(latency) of the analysed quantile; None without a request."""
    analysis = evidence.scenario.analysis
    metric = "e2e_s" if analysis.metric in ("itl_s", "tpot_s") else analysis.metric
    rows = evidence.cell_rows(cell)
    values = LATENCIES[metric](rows)
    lag = dispatch_lag_s(rows)
    if metric not in FIRST_CALL:
        lag = lag + call_lag_s(rows)
    own = values - lag
    known = np.isfinite(own)
    if not known.any():
        return None
    whole, without = (
        float(np.quantile(part[known], analysis.q, method="higher")) for part in (values, own)
    )
    return 1 - without / whole if whole > 0 else None
