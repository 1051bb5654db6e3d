"""The plan as a file: plain JSON values and back, bit for bit."""

from dataclasses import asdict
from typing import Any

from harness.base.errors import RecordError
from harness.plan.plan import Cell, Plan, PlannedRequest, Segment

SCHEMA = 1
REQUEST_COLUMNS = (
    "index", "is_warmup", "offset_ns", "prompt_seed", "max_tokens", "sampling_seed",
)  # fmt: skip


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Plain JSON values; requests are stored column-wise per segment."""
    return {
        "schema": SCHEMA,
        "scenario": plan.scenario,
        "seed": plan.seed,
        "cells": [asdict(cell) for cell in plan.cells],
        "segments": [_segment_to_json(segment) for segment in plan.segments],
    }


def plan_from_json(value: Any) -> Plan:
    """The plan written by `plan_to_json`.

    Raises:
        RecordError: another schema, or not a plan.
    """
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        found = value.get("schema") if isinstance(value, dict) else type(value).__name__
        raise RecordError(f"plan.json: got schema {found!r}, this version reads {SCHEMA}")
    try:
        return Plan(
            scenario=value["scenario"],
            seed=value["seed"],
            cells=tuple(Cell(**cell) for cell in value["cells"]),
            segments=tuple(_segment_from_json(segment) for segment in value["segments"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"plan.json: not a plan of schema {SCHEMA}: {error}") from error


def _segment_to_json(segment: Segment) -> dict[str, Any]:
    columns = {
        name: [getattr(request, name) for request in segment.requests] for name in REQUEST_COLUMNS
    }
    return {
        "id": segment.id,
        "cell": segment.cell,
        "repeat": segment.repeat,
        "n_warmup": segment.n_warmup,
        "requests": columns,
    }


def _segment_from_json(value: dict[str, Any]) -> Segment:
    columns = value["requests"]
    rows = zip(*(columns[name] for name in REQUEST_COLUMNS), strict=True)
    requests = tuple(PlannedRequest(**dict(zip(REQUEST_COLUMNS, row, strict=True))) for row in rows)
    return Segment(
        id=value["id"],
        cell=value["cell"],
        repeat=value["repeat"],
        n_warmup=value["n_warmup"],
        requests=requests,
    )
