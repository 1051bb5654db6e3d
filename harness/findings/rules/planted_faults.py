"""Faults were planted in the bundled server: what it shows is partly by order."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """A doubt on the run that names the faults; a server of one's own has none of ours."""
    target = evidence.scenario.target
    if target.url is not None or not target.server.faults:
        return []
    return [Doubt(text=f"faults were planted in the bundled server: {target.server.faults}")]
