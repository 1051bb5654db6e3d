"""Why a curve breaks: symptoms beyond the break that the cells before it lack."""

from typing import Any

import pytest

from harness.findings.cells import summarise_cells
from harness.findings.finding import Breakpoint, Why
from harness.findings.why import explain
from harness.metrics.catalogue import server
from harness.metrics.window import Telemetry
from tests.make_records import make_evidence
from tests.telemetry_rows import rows, scrapes, telemetry
from tests.unit.report.make_report import make_jump

OFFSET_S = 1_000
PER_S = 10
"""Requests a second that the server finishes, each a tenth of a second long."""


def seconds(name: str, slope: dict[int, float], **labels: str) -> Any:
    """A counter over 35 seconds that grows by `slope` from the given seconds on."""
    value, growing = 0.0, 0.0
    points: list[tuple[float, float | None]] = []
    for second in range(35):
        points.append((OFFSET_S + second, value))
        growing = slope.get(second, growing)
        value += growing
    return rows(name, points, source="target", **labels)


def waiting_from(second: int, until: int = 35) -> Telemetry:
    """Requests wait half of their time for KV memory between these seconds."""
    infer, phase = server.INFER_DURATION.name, server.PHASE_DURATION.name
    return telemetry(
        scrapes(*[OFFSET_S + each for each in range(35)], source="target"),
        seconds(f"{infer}_count", {0: PER_S}, path="x"),
        seconds(f"{infer}_sum", {0: PER_S * 0.1}, path="x"),
        seconds(
            f"{phase}_sum", {0: 0.0, second: PER_S * 0.05, until: 0.0}, path="x", phase="kv_wait"
        ),
    )


def why(found: Telemetry | None, *breakpoints: Breakpoint) -> list[Why]:
    """The small run with each cell measured for four of ten seconds, in the order of the cells."""
    plain = make_evidence()
    frame = plain.rows.copy()
    start = {cell: 10 * place for place, cell in enumerate(sorted(set(frame["cell"])))}
    frame["sent_ns"] = [int(start[cell] * 1e9) for cell in frame["cell"]]
    frame["done_ns"] = [int((start[cell] + 4) * 1e9) for cell in frame["cell"]]
    sessions = [{"number": 1, "realtime_minus_monotonic_ns": int(OFFSET_S * 1e9)}]
    evidence = make_evidence(rows=frame, run={**plain.run, "sessions": sessions}, telemetry=found)
    return explain(evidence, summarise_cells(evidence, []), breakpoints)


def jump(*, accelerated: bool, component: str | None = "kv_wait") -> Breakpoint:
    return make_jump(at={"accelerated": accelerated}, location=96.0, component=component)


def test_a_symptom_beyond_the_break_explains_its_component() -> None:
    """The baseline's long prompts, measured from 20 to 24 s, wait; its short ones did not."""
    (found,) = why(waiting_from(20, 25), jump(accelerated=False))
    (symptom,) = found.symptoms
    assert (found.component, symptom.name) == ("kv_wait", "kv_pressure")
    assert symptom.explains_component
    assert symptom.evidence[0].value == pytest.approx(0.5, abs=0.01)
    assert symptom.evidence[0].normal == pytest.approx(0, abs=0.01)


def test_a_symptom_of_both_sides_is_not_behind_the_break() -> None:
    """Waiting throughout explains no break; it is told of the whole run instead."""
    (found,) = why(waiting_from(0), jump(accelerated=False))
    assert found.axis is None
    assert [each.name for each in found.symptoms] == ["kv_pressure"]
    assert not found.symptoms[0].explains_component


def test_the_other_path_is_not_mixed_in() -> None:
    """What the baseline shows is no symptom of the accelerated path's break."""
    found = why(waiting_from(20, 25), jump(accelerated=True), jump(accelerated=False))
    assert [each.at for each in found] == [{"accelerated": False}]


def test_another_component_is_not_claimed_to_be_explained() -> None:
    """Waiting for memory is seen, but the break's rise is in attention."""
    (found,) = why(waiting_from(20, 25), jump(accelerated=False, component="attention"))
    assert not found.symptoms[0].explains_component


def test_without_telemetry_or_symptoms_nothing_is_told() -> None:
    """Neither a run that nobody scraped nor a healthy one has a section."""
    assert why(None, jump(accelerated=False)) == []
    assert why(waiting_from(34), jump(accelerated=False)) == []
