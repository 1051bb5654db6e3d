"""The answer says that another path ran than the one asked for: the cell compares nothing."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt


def check(evidence: Evidence) -> list[Doubt]:
    """Only where `accelerated` is an axis: then every answer must agree with its cell."""
    if "accelerated" not in evidence.scenario.axes.given():
        return []
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_rows(cell)
        ran = rows["features"].map(len).to_numpy() > 0
        n_wrong = int((ran != cell.accelerated).sum())
        if n_wrong:
            asked = "accelerated" if cell.accelerated else "baseline"
            text = (
                f"{n_wrong} of {len(rows)} answers do not confirm the {asked} path; the target "
                "must honour X-MC-Accel and say in its last event what ran"
            )
            doubts.append(Doubt(cell=cell.id, text=text, effect="invalid-client"))
    return doubts
