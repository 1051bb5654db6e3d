"""Why a curve breaks, by the server's own telemetry: symptoms beyond the break, absent before it.

For each break the cells before it on its curve are the normal time and those beyond it the fault.
Where no break has a symptom, the whole run is asked by itself. Rules that compare the load are left
out: along an axis the load differs on purpose.
"""

from collections.abc import Sequence
from typing import Final

from harness.findings.cells import number
from harness.findings.diagnosis import diagnose
from harness.findings.evidence import Evidence
from harness.findings.finding import Breakpoint, Cell, SeenFigure, SeenSymptom, Why
from harness.findings.symptoms import RULES, Context, Symptom, more_load
from harness.metrics.window import Telemetry, Window

EXPLAINS: Final[dict[str, frozenset[str]]] = {
    "kv_pressure": frozenset({"kv_wait", "queue"}),
    "queueing": frozenset({"queue"}),
    "gc_pauses": frozenset({"gc"}),
    "garbage": frozenset({"gc"}),
    "store_slow": frozenset({"store"}),
    "store_exhausted": frozenset({"store"}),
    "loop_blocked": frozenset({"stream", "network", "other"}),
    "client_late": frozenset({"client"}),
    "pool_dead": frozenset({"queue", "kv_wait"}),
}
"""By symptom: the components whose time it makes longer. `slow_phase` names its own."""
_RULES: Final = tuple(rule for rule in RULES if rule is not more_load.check)


def explain(
    evidence: Evidence, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> list[Why]:
    """What telemetry says behind each break, or of the whole run; nothing where nothing is seen."""
    telemetry = evidence.telemetry
    if telemetry is None:
        return []
    found = [_behind(evidence, telemetry, cells, each) for each in breakpoints]
    told = [why for why in found if why is not None and why.symptoms]
    if told:
        return told
    window = _window(evidence, telemetry, cells)
    seen = _seen(None, window, None)
    return [Why(axis=None, at={}, location=None, component=None, symptoms=seen)] if seen else []


def _behind(
    evidence: Evidence, telemetry: Telemetry, cells: Sequence[Cell], found: Breakpoint
) -> Why | None:
    location = found.location
    if location is None:
        return None
    curve = [
        cell
        for cell in cells
        if all(cell.factors.get(name) == value for name, value in found.at.items())
    ]
    before = [cell for cell in curve if float(cell.factors[found.axis]) < location]
    beyond = [cell for cell in curve if float(cell.factors[found.axis]) >= location]
    normal, fault = (_window(evidence, telemetry, part) for part in (before, beyond))
    if normal is None or fault is None:
        return None
    return Why(
        axis=found.axis,
        at=found.at,
        location=location,
        component=found.component,
        symptoms=_seen(normal, fault, found.component),
    )


def _window(evidence: Evidence, telemetry: Telemetry, cells: Sequence[Cell]) -> Window | None:
    """The times at which these cells were measured; None where they are not known."""
    ids = {cell.id for cell in cells}
    spans = [
        span
        for planned in evidence.plan.cells
        if planned.id in ids
        for span in evidence.unix_spans(evidence.cell_measured(planned))
    ]
    return telemetry.window(*sorted(spans)) if spans else None


def _seen(normal: Window | None, fault: Window | None, component: str | None) -> list[SeenSymptom]:
    """Symptoms, those that explain the break's component first."""
    found = diagnose(Context(normal=normal, fault=fault), _RULES).symptoms
    told = [_told(each, component) for each in found]
    return sorted(told, key=lambda each: not each.explains_component)


def _told(symptom: Symptom, component: str | None) -> SeenSymptom:
    explained = EXPLAINS.get(symptom.name, frozenset())
    is_phase = symptom.name == "slow_phase" and symptom.evidence[0].what == f"{component} a request"
    return SeenSymptom(
        name=symptom.name,
        seen=symptom.seen,
        cause=symptom.cause,
        fix=symptom.fix,
        strength=number(symptom.strength),
        explains_component=is_phase or component in explained,
        evidence=[
            SeenFigure(
                what=each.what, value=number(each.value), unit=each.unit, normal=number(each.normal)
            )
            for each in symptom.evidence
        ],
    )
