"""The plan as a file: plain JSON values and back, bit for bit."""

import json
from dataclasses import asdict
from typing import Any, Final

from pydantic import TypeAdapter

from harness.base.errors import RecordError
from harness.plan.plan import Cell, Plan, PlannedRequest, Segment
from harness.scenario.acceleration import normalised

SCHEMA = 1
_CELL: Final = TypeAdapter(Cell)
_TEXT: Final = TypeAdapter(str)
_NUMBER: Final = TypeAdapter(int)
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
        plan = Plan(
            scenario=_TEXT.validate_python(value["scenario"], strict=True),
            seed=_NUMBER.validate_python(value["seed"], strict=True),
            cells=tuple(_cell_from_json(cell) for cell in value["cells"]),
            segments=tuple(_segment_from_json(segment) for segment in value["segments"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"plan.json: not a plan of schema {SCHEMA}: {error}") from error
    _require_sound(plan)
    return plan


def _require_sound(plan: Plan) -> None:
    """Require what `build_plan` promises of names and numbers.

    Raises:
        RecordError: the file was edited or damaged.
    """
    cells, segments = [cell.id for cell in plan.cells], [segment.id for segment in plan.segments]
    if not cells:
        raise RecordError("plan.json: got no cells: damaged, or edited")
    if len({*cells}) < len(cells) or len({*segments}) < len(segments):
        raise RecordError("plan.json: two cells or two segments of one name: damaged, or edited")
    if not {segment.cell for segment in plan.segments} <= {*cells}:
        raise RecordError("plan.json: a segment of a cell that is not there: damaged, or edited")
    if len({tuple(cell.factors) for cell in plan.cells}) > 1:
        raise RecordError("plan.json: cells on different axes: damaged, or edited")


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


def _cell_from_json(value: Any) -> Cell:
    cell = _CELL.validate_json(json.dumps(value), strict=True)
    words = {name for name, factor in cell.factors.items() if isinstance(factor, str)}
    if words - {"accelerated"}:
        raise ValueError(f"{cell.id}: words on the axes {', '.join(sorted(words))}")
    if cell.factors.get("accelerated", cell.accelerated) != cell.accelerated:
        raise ValueError(f"{cell.id}: accelerated is not what its axis says")
    if normalised(cell.accelerated) != cell.accelerated:
        raise ValueError(f"{cell.id}: accelerated is {cell.accelerated!r}")
    return cell


def _require_kinds(name: str, column: list[Any]) -> None:
    """Require a column of one kind: JSON knows nothing of it."""
    kinds: set[type] = {type(item) for item in column}
    allowed: list[type] = [int]
    if name == "is_warmup":
        allowed = [bool]
    if name == "offset_ns":
        allowed = [int, type(None)]
    if len(kinds) > 1 or not kinds <= {*allowed}:
        raise ValueError(f"requests.{name} holds something else than numbers")


def _segment_from_json(value: dict[str, Any]) -> Segment:
    columns = value["requests"]
    for name in REQUEST_COLUMNS:
        _require_kinds(name, columns[name])
    rows = zip(*(columns[name] for name in REQUEST_COLUMNS), strict=True)
    requests = tuple(PlannedRequest(**dict(zip(REQUEST_COLUMNS, row, strict=True))) for row in rows)
    return Segment(
        id=_TEXT.validate_python(value["id"], strict=True),
        cell=_TEXT.validate_python(value["cell"], strict=True),
        repeat=_NUMBER.validate_python(value["repeat"], strict=True),
        n_warmup=_NUMBER.validate_python(value["n_warmup"], strict=True),
        requests=requests,
    )
