"""Findings to one Report: the last fold before anything is drawn. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd

from harness.findings.evidence import Evidence
from harness.findings.finding import (
    Analysis,
    BaselineComparison,
    Breakpoint,
    Cell,
    Comparison,
    Reproduce,
    Round,
    Run,
    ServerSaid,
    Validity,
    Verdict,
    Why,
)
from harness.report.schema import Report

NS = 1e9


def build_report(
    *,
    evidence: Evidence,
    verdict: Verdict,
    validity: Validity,
    cells: Sequence[Cell],
    breakpoints: Sequence[Breakpoint],
    comparison: Comparison | None,
    baseline: BaselineComparison | None = None,
    telemetry: ServerSaid | None = None,
    why: Sequence[Why] = (),
) -> Report:
    """The report of one run."""
    analysis = evidence.scenario.analysis
    return Report(
        run=_run(evidence, verdict),
        analysis=Analysis(
            metric=analysis.metric,
            q=analysis.q,
            confidence=analysis.confidence,
            axis=analysis.axis,
        ),
        verdict=verdict,
        validity=validity,
        cells=list(cells),
        breakpoints=list(breakpoints),
        comparison=comparison,
        baseline=baseline,
        telemetry=telemetry,
        why=list(why),
        rounds=_rounds(evidence),
        reproduce=_reproduce(evidence),
        caveats=_caveats(validity, cells, breakpoints, baseline),
    )


def _rounds(evidence: Evidence) -> list[Round]:
    """What was measured when, and why; none where everything was planned at once."""
    if not evidence.rounds:
        return []
    later = min(each["first_repeat"] for each in evidence.rounds)
    segments = tuple(segment for segment in evidence.plan.segments if segment.repeat < later)
    cells = sorted({segment.cell for segment in segments})
    n = replace(evidence.plan, segments=segments).n_measured
    found = [Round(number=1, why=["grid"], cells=cells, n_requests=n)]
    for number, each in enumerate(evidence.rounds, 2):
        wishes = each["wishes"]
        found.append(
            Round(
                number=number,
                why=list(dict.fromkeys(wish["why"] for wish in wishes)),
                cells=sorted({wish["cell"] for wish in wishes}),
                n_requests=sum(wish["n"] for wish in wishes),
            )
        )
    return found


def _run(evidence: Evidence, verdict: Verdict) -> Run:
    rows = evidence.planned
    status: Literal["complete", "partial", "void"] = "complete"
    if evidence.n_missing:
        status = "partial"  # before void: there is something to do about it
    elif verdict.status == "invalid":
        status = "void"
    return Run(
        id=evidence.run["id"],
        scenario=evidence.scenario.name,
        title=evidence.scenario.title,
        target=evidence.run["target"],
        started=evidence.run["started"],
        status=status,
        duration_s=_duration_s(rows),
        n_requests=len(rows),
    )


def _duration_s(rows: pd.DataFrame) -> float | None:
    """From the first send to the last end, summed over sessions; None without an end."""
    spans = rows.groupby("session").agg(start=("intended_ns", "min"), end=("done_ns", "max"))
    seconds = float((spans["end"] - spans["start"]).sum(min_count=1)) / NS
    return seconds if math.isfinite(seconds) else None


def _reproduce(evidence: Evidence) -> Reproduce:
    return Reproduce(
        command=evidence.run.get("command", "not recorded; scenario.json holds every value"),
        seed=evidence.plan.seed,
        environment=dict(evidence.environment),
    )


def _caveats(
    validity: Validity,
    cells: Sequence[Cell],
    breakpoints: Sequence[Breakpoint],
    baseline: BaselineComparison | None,
) -> list[str]:
    lines = list(validity.caveats)
    lines += [f"{cell.id}: {caveat}" for cell in cells for caveat in cell.caveats]
    lines += [caveat for item in breakpoints for caveat in item.caveats]
    if baseline is not None:
        told = (*baseline.caveats, *baseline.unmatched)
        lines += [f"Against run {baseline.reference}: {text}" for text in told]
    return list(dict.fromkeys(lines))
