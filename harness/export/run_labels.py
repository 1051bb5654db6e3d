"""The labels under which a run's cells are exposed."""

from collections.abc import Mapping

from harness.plan.plan import Cell, Factor, Plan
from harness.scenario.acceleration import FACTOR
from harness.scenario.schema import Scenario


def service_labels(scenario: Scenario) -> tuple[str, str, str]:
    """Service, version and scenario."""
    target = scenario.target
    return target.service or target.model, target.version, scenario.name


def cell_labels(scenario: Scenario, plan: Plan) -> dict[str, tuple[str, ...]]:
    """By cell id: `CELL_LABELS` of the catalogue."""
    service = service_labels(scenario)
    return {cell.id: (*service, cell.id, path_of(cell)) for cell in plan.cells}


def path_of(cell: Cell) -> str:
    """Which path the cell asks for; empty where paths are no axis."""
    if FACTOR not in cell.factors:
        return ""
    return "accelerated" if cell.accelerated else "baseline"


def factor_words(factors: Mapping[str, Factor]) -> str:
    """Factors as one label: `prompt_tokens=64 accelerated=false`."""
    return " ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in factors.items()
    )
