"""Fewer rows than the plan intended: the run was killed or stopped and not finished since."""

from harness.findings.evidence import Evidence
from harness.findings.quantity import many
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """A cell short of planned rows is `partial`; what the store itself lost is named."""
    found = evidence.answered["cell"].value_counts()
    planned: dict[str, int] = {}
    for segment in evidence.plan.segments:
        planned[segment.cell] = planned.get(segment.cell, 0) + len(segment.requests)
    doubts = [
        Doubt(
            cell=cell,
            text=f"{found.get(cell, 0)} of {n} planned requests have a record",
            effect="partial",
        )
        for cell, n in planned.items()
        if found.get(cell, 0) < n
    ]
    return [*doubts, *_unfinished(evidence), *_damage(evidence)]


def _unfinished(evidence: Evidence) -> list[Doubt]:
    """One sentence on the whole run, with what to do."""
    n, n_missing = evidence.plan.n_requests, evidence.n_missing
    if not n_missing:
        return []
    n_cancelled = len(evidence.planned) - len(evidence.answered)
    stopped = f" ({n_cancelled} cancelled when it was stopped)" if n_cancelled else ""
    text = (
        f"the run is partial: {n_missing} of {n} planned requests were not made{stopped}; "
        "tailbreak run --resume with its folder makes them"
    )
    return [Doubt(text=text)]


def _damage(evidence: Evidence) -> list[Doubt]:
    lost = [
        Doubt(text=f"{name} lacks {many(n, 'acknowledged row')}: the file or its disk is damaged")
        for name, n in evidence.lost
    ]
    if not evidence.n_missing:
        return lost
    return lost + [
        Doubt(text=f"the writer of {name} was killed: at most the last second is not in it")
        for name in evidence.torn
    ]
