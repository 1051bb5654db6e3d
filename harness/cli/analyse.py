"""A run folder to its report: records, rules, cells, breakpoints, verdict. Needs no server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.base.errors import RecordError
from harness.findings.baseline import compare_runs
from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.comparison import compare_paths
from harness.findings.evidence import Evidence
from harness.findings.finding import Cell
from harness.findings.rules import RULES, Doubt
from harness.findings.server_said import server_said
from harness.findings.surfaces import find_surfaces
from harness.findings.validity import judge_validity
from harness.findings.verdict import judge
from harness.findings.why import explain
from harness.metrics.window import Telemetry
from harness.plan.codec import plan_from_json
from harness.records.about import read_about, served_by
from harness.records.client_account import read_account, worst_account
from harness.records.fidelity import FILE, read_fidelity
from harness.records.frame import to_frame
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.records.telemetry import read_telemetry
from harness.report.context import build_report
from harness.report.schema import Report
from harness.scenario.baseline import recorded_baseline
from harness.scenario.read import stored_scenario


def read_evidence(run: RunFolder) -> Evidence:
    """Everything a run left behind.

    Raises:
        RecordError: a file of the run is missing or damaged.
    """
    rows = read_rows(run)
    told = read_about(run)
    sessions = told["sessions"]
    numbers = range(1, len(sessions) + 1)
    environment, *later = [
        _environment(run, number) | served_by(session)
        for number, session in zip(numbers, sessions, strict=True)
    ]
    return Evidence(
        scenario=stored_scenario(run),
        plan=plan_from_json(run.read_json("plan.json")),
        rows=to_frame(rows),
        torn=rows.torn,
        lost=rows.lost,
        client=_client(run, numbers),
        run=told,
        environment=environment,
        later_environments=tuple(later),
        fidelity=read_fidelity(run) if run.has(FILE) else None,
        telemetry=Telemetry(frame) if (frame := read_telemetry(run)) is not None else None,
    )


def _client(run: RunFolder, sessions: Sequence[int]) -> dict[str, Any]:
    """The load's account of itself, the worst of all sessions that left one."""
    return worst_account([read_account(run, number) for number in sessions])


def _environment(run: RunFolder, session: int) -> dict[str, str]:
    name = run.file_of_session("environment.json", session)
    return {key: str(value) for key, value in run.read_object(name).items()}


def analyse(run: RunFolder, baseline: Path | None = None) -> Report:
    """The report of a run; the same folders give the same report, bit for bit.

    It is compared with the run in `baseline`, or else with the one that it was started against.

    Raises:
        RecordError: the run, or the baseline, cannot be read.
        SetupError: the baseline is no baseline for this run.
    """
    evidence, doubts, cells = judge_cells(run)
    reference = baseline or recorded_baseline(run)
    compared = None
    if reference is not None:
        before, _, cells_before = judge_cells(RunFolder.open(reference))
        compared = compare_runs(before, cells_before, evidence, cells)
    breakpoints = [*find_breaks(evidence, cells), *find_surfaces(evidence, cells)]
    comparison = compare_paths(evidence, cells)
    return build_report(
        evidence=evidence,
        verdict=judge(evidence, cells, breakpoints, comparison, compared),
        validity=judge_validity(evidence, doubts),
        cells=cells,
        breakpoints=breakpoints,
        comparison=comparison,
        baseline=compared,
        telemetry=server_said(evidence),
        why=explain(evidence, cells, breakpoints),
    )


def judge_cells(run: RunFolder) -> tuple[Evidence, list[Doubt], list[Cell]]:
    """What a run left behind, what the rules doubt of it, and its cells."""
    evidence = read_evidence(run)
    _require_planned(run, evidence)
    doubts = [doubt for rule in RULES for doubt in rule(evidence)]
    return evidence, doubts, summarise_cells(evidence, doubts)


def _require_planned(run: RunFolder, evidence: Evidence) -> None:
    """Require that each row is of the plan: its cell, and its request but for repeated warm-ups.

    Raises:
        RecordError: rows and plan are not of one run, or the plan was edited.
    """
    known = {
        (segment.cell, segment.id, request.index)
        for segment in evidence.plan.segments
        for request in segment.requests
    }
    cells, segments, indices = (evidence.rows[name] for name in ("cell", "segment", "index"))
    rows = zip(cells, segments, (max(index, -1 - index) for index in indices), strict=True)
    unknown = sorted(set(rows) - known)
    if unknown:
        cell, segment, index = unknown[0]
        raise RecordError(
            f"{run.path}: {len(unknown)} recorded requests are not in its plan.json, such as "
            f"number {index} of segment {segment} on cell {cell}: damaged, or edited"
        )
