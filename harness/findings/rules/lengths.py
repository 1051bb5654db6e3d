"""Prompts or answers are not as long as asked: the axis then says something else."""

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt

TOLERANCE = 0.02


def check(evidence: Evidence) -> list[Doubt]:
    """A caveat per cell whose mean length is off by more than 2 %, or was never counted."""
    doubts = []
    for cell in evidence.plan.cells:
        rows = evidence.cell_rows(cell)
        if rows.empty:
            continue
        for counted, asked, what in (
            ("n_prompt_tokens", "prompt_asked", "prompts"),
            ("n_output_tokens", "output_asked", "answers"),
        ):
            got = rows[counted].to_numpy(dtype=float, na_value=np.nan)
            if not np.isfinite(got).any():
                doubts.append(Doubt(cell=cell.id, text=f"the target does not count its {what}"))
                continue
            mean, wanted = float(np.nanmean(got)), float(rows[asked].mean())
            if abs(mean / wanted - 1) > TOLERANCE:
                text = f"{what} are {mean:.1f} tokens long in the mean, {wanted:.1f} were asked"
                doubts.append(Doubt(cell=cell.id, text=text))
    return doubts
