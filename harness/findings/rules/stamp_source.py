"""No receive stamps from the operating system: a late event loop moves every latency."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """A caveat on the run when any row was stamped in user space."""
    n_user = int((evidence.analysed["stamps"] == "user").sum())
    if not n_user:
        return []
    return [
        Doubt(
            text=f"{n_user} of {len(evidence.analysed)} requests carry user-space stamps: "
            "their latencies include the load process's own delays"
        )
    ]
