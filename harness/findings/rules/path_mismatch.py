"""The answers say that something else ran than was asked for: the cell compares nothing."""

from collections import Counter

import pandas as pd

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.plan.plan import Cell
from harness.scenario.acceleration import agrees

KINDS_SHOWN = 3


def check(evidence: Evidence) -> list[Doubt]:
    """Only where `accelerated` is an axis: then every answer must agree with its cell.

    Answers must also agree with each other: `true` may run more today than tomorrow, but not more
    in one request of a cell than in the next.
    """
    if "accelerated" not in evidence.scenario.axes.given():
        return []
    texts = ((cell, _disagreement(cell, evidence.cell_rows(cell))) for cell in evidence.plan.cells)
    return [Doubt(cell=cell.id, text=text, effect="invalid-client") for cell, text in texts if text]


def _disagreement(cell: Cell, rows: pd.DataFrame) -> str:
    """What the answers of a cell do not confirm; empty where all do."""
    ran = [frozenset(features) for features in rows["features"]]
    n_wrong = sum(
        "path_mismatch" in oddities or not agrees(cell.accelerated, features)
        for features, oddities in zip(ran, rows["anomalies"], strict=True)
    )
    kinds = Counter(ran)
    if n_wrong:
        return (
            f"{n_wrong} of {len(rows)} answers do not confirm {_asked(cell)}{_said(kinds)}; the "
            "target must honour X-MC-Accel and say in its last event what ran"
        )
    if len(kinds) > 1:
        return f"the answers of one cell ran different features{_said(kinds)}"
    return ""


def _asked(cell: Cell) -> str:
    if isinstance(cell.accelerated, str):
        return f"exactly the features {cell.accelerated}"
    return f"the {'accelerated' if cell.accelerated else 'baseline'} path"


def _said(kinds: Counter[frozenset[str]]) -> str:
    """`: 3 ran paged_kv, 1 nothing`; the commonest first."""
    counts = kinds.most_common(KINDS_SHOWN)
    said = ", ".join(f"{n} ran {','.join(sorted(kind)) or 'none'}" for kind, n in counts)
    return f": {said}" + (", ..." if len(kinds) > KINDS_SHOWN else "")
