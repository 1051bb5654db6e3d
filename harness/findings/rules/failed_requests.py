"""Requests of a cell failed beyond the scenario's limit: its latencies describe survivors."""

from harness.findings.evidence import OK_OUTCOMES, Evidence
from harness.findings.rules.rule import Doubt
from harness.records.request import Outcome


def check(evidence: Evidence) -> list[Doubt]:
    """A doubt per cell with failures; beyond `limits.failed_share` the cell is `failed`.

    Cancelled is no failure of the target: we stopped, and the request is missing.
    """
    limit = evidence.scenario.limits.failed_share
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_measured(cell)
        bad = rows[~rows["outcome"].isin(OK_OUTCOMES | {Outcome.CANCELLED.value})]
        if bad.empty:
            continue
        share = len(bad) / len(rows)
        worst = bad["outcome"].value_counts().index[0]
        text = f"{len(bad)} of {len(rows)} requests failed ({share:.1%}), most as {worst}"
        if share > limit:
            text += f"; the limit is {limit:.1%}"
            doubts.append(Doubt(cell=cell.id, text=text, effect="failed"))
        else:
            doubts.append(Doubt(cell=cell.id, text=text))
    return doubts
