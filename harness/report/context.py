"""Findings to one Report: the last fold before anything is drawn. Pure."""

from collections.abc import Sequence

from harness.findings.evidence import Evidence
from harness.findings.finding import (
    Analysis,
    Breakpoint,
    Cell,
    Comparison,
    Reproduce,
    Run,
    Validity,
    Verdict,
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
        reproduce=_reproduce(evidence),
        caveats=_caveats(validity, cells, breakpoints),
    )


def _run(evidence: Evidence, verdict: Verdict) -> Run:
    rows = evidence.rows
    ended = rows["done_ns"].dropna()
    seconds = (float(ended.max()) - float(rows["intended_ns"].min())) / NS if len(ended) else None
    is_partial = evidence.run["status"] != "complete" or len(rows) < evidence.plan.n_requests
    status = "void" if verdict.status == "invalid" else "partial" if is_partial else "complete"
    return Run(
        id=evidence.run["id"],
        scenario=evidence.scenario.name,
        title=evidence.scenario.title,
        target=evidence.run["target"],
        started=evidence.run["started"],
        status=status,
        duration_s=seconds,
        n_requests=len(rows),
    )


def _reproduce(evidence: Evidence) -> Reproduce:
    return Reproduce(
        command=evidence.run.get("command", "not recorded; scenario.json holds every value"),
        seed=evidence.plan.seed,
        environment=dict(evidence.environment),
    )


def _caveats(
    validity: Validity, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> list[str]:
    lines = list(validity.caveats)
    lines += [f"{cell.id}: {caveat}" for cell in cells for caveat in cell.caveats]
    lines += [caveat for item in breakpoints for caveat in item.caveats]
    return list(dict.fromkeys(lines))
