"""The wall clock stepped during the run: receive stamps near the step are worthless."""

from harness.findings.evidence import Evidence
from harness.findings.quantity import many
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """Every cell is `invalid-client`: which stamps were touched is not known."""
    steps = int(evidence.client.get("clock_steps") or 0)
    if not steps or evidence.client.get("stamps") != "kernel":
        return []
    text = (
        f"the wall clock stepped {many(steps, 'time')} during the run; receive stamps cannot be "
        "trusted"
    )
    return [Doubt(cell=cell.id, text=text, effect="invalid-client") for cell in evidence.plan.cells]
