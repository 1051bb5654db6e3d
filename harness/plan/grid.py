"""The grid: every combination of the scenario's axes becomes a cell."""

import itertools
from typing import Any

from harness.plan.plan import Cell
from harness.scenario.schema import Scenario

SAMPLING_AXES = ("temperature", "frequency_penalty", "presence_penalty", "repetition_penalty")


def build_cells(scenario: Scenario) -> tuple[Cell, ...]:
    """Cells in row-major order of the axes, named c00, c01, ..."""
    axes = scenario.axes.given()
    rows = list(itertools.product(*axes.values()))
    width = max(2, len(str(len(rows) - 1)))
    return tuple(
        build_cell(f"c{number:0{width}d}", dict(zip(axes, row, strict=True)), scenario)
        for number, row in enumerate(rows)
    )


def build_cell(cell_id: str, factors: dict[str, Any], scenario: Scenario) -> Cell:
    """The cell of these values of the axes."""
    load = scenario.load
    closed = load.mode == "closed"
    sampling = scenario.sampling.model_dump()
    sampling.update({name: factors[name] for name in SAMPLING_AXES if name in factors})
    return Cell(
        id=cell_id,
        factors=factors,
        prompt_tokens=factors.get("prompt_tokens", scenario.prompt_tokens),
        cot_depth=factors.get("cot_depth", scenario.cot.depth),
        cot_step_tokens=scenario.cot.step_tokens,
        cot_mode=scenario.cot.mode,
        accelerated=factors.get("accelerated", False),
        concurrency=factors.get("concurrency", load.concurrency) if closed else None,
        rate_rps=None if closed else factors.get("rate_rps", load.rate_rps),
        sampling=sampling,
    )
