"""A run folder to its report: records, rules, cells, breakpoints, verdict. Needs no server."""

from harness.base.errors import RecordError
from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.client_account import worst_account
from harness.findings.comparison import compare_paths
from harness.findings.evidence import Evidence
from harness.findings.rules import RULES
from harness.findings.validity import judge_validity
from harness.findings.verdict import judge
from harness.plan.codec import plan_from_json
from harness.records.frame import to_frame
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.report.context import build_report
from harness.report.schema import Report
from harness.scenario.read import validate_scenario


def read_evidence(run: RunFolder) -> Evidence:
    """Everything a run left behind.

    Raises:
        RecordError: a file of the run is missing or damaged.
    """
    rows = read_rows(run)
    told = run.read_object("run.json", "id", "target", "started", "status")
    numbers = range(1, len(told.get("sessions", [None])) + 1)
    environment, *later = [_environment(run, number) for number in numbers]
    clients = [run.file_of_session("client.json", number) for number in numbers]
    return Evidence(
        scenario=validate_scenario(run.read_json("scenario.json"), str(run.path / "scenario.json")),
        plan=plan_from_json(run.read_json("plan.json")),
        rows=to_frame(rows),
        torn=rows.torn,
        lost=rows.lost,
        client=worst_account([run.read_object(name) for name in clients if run.has(name)]),
        run=told,
        environment=environment,
        later_environments=tuple(later),
    )


def _environment(run: RunFolder, session: int) -> dict[str, str]:
    name = run.file_of_session("environment.json", session)
    return {key: str(value) for key, value in run.read_object(name).items()}


def analyse(run: RunFolder) -> Report:
    """The report of a run; the same folder gives the same report, bit for bit.

    Raises:
        RecordError: the run cannot be read.
    """
    evidence = read_evidence(run)
    unknown = set(evidence.rows["cell"]) - {cell.id for cell in evidence.plan.cells}
    if unknown:
        raise RecordError(f"{run.path}: rows of cells that the plan does not have: {unknown}")
    doubts = [doubt for rule in RULES for doubt in rule(evidence)]
    cells = summarise_cells(evidence, doubts)
    breakpoints = find_breaks(evidence, cells)
    comparison = compare_paths(evidence, cells)
    return build_report(
        evidence=evidence,
        verdict=judge(evidence, cells, breakpoints, comparison),
        validity=judge_validity(evidence, doubts),
        cells=cells,
        breakpoints=breakpoints,
        comparison=comparison,
    )
