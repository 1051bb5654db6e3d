"""One of several load processes died, hung or left: its segments are partial, and the run ended."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """A doubt on the run for each process that was lost, with its name."""
    lost = evidence.client.get("lost_workers", [])
    return [Doubt(text=f"load {text}; the load ended there") for text in lost]
