"""Chunks arrive in bursts: a buffering proxy or a late reader bends ITL, not TTFT alone."""

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.metrics.stream import coalesced_share, late_read_share

LIMIT = 0.05


def check(evidence: Evidence) -> list[Doubt]:
    """A caveat per cell whose share of late reads or of zero gaps exceeds 5 %."""
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_rows(cell)
        for share, what in (
            (late_read_share(rows), "chunks were read together with others (late reads)"),
            (coalesced_share(rows), "chunks arrived at the same instant as the one before"),
        ):
            if share is not None and np.isfinite(share) and share > LIMIT:
                text = f"{share:.0%} of {what}; ITL leaves them out and may mislead"
                doubts.append(Doubt(cell=cell.id, text=text))
    return doubts
