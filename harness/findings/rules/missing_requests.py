"""Fewer rows than the plan intended: the run was cut, or its last second was lost."""

from collections import Counter

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """A cell short of planned rows is `partial`; a torn shard is named."""
    found = Counter(evidence.rows["cell"])
    planned: Counter[str] = Counter()
    for segment in evidence.plan.segments:
        planned[segment.cell] += len(segment.requests)
    doubts = [
        Doubt(
            cell=cell,
            text=f"{found[cell]} of {planned[cell]} planned requests have a record",
            effect="partial",
        )
        for cell in planned
        if found[cell] < planned[cell]
    ]
    doubts += [
        Doubt(text=f"the last batch of {name} was cut and dropped") for name in evidence.torn
    ]
    return doubts
