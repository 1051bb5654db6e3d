"""From the bytes of a request body to its model, or to a refusal in words.

A refusal names each field by its path, the value that came and the range that is allowed, such as
`messages[0].content: got 5, allowed a string ...`. It shows the beginning of a value, never all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from pydantic import ValidationError

from harness.server.api_error import ApiError
from harness.server.foreign_fields import NEUTRAL_VALUES
from harness.server.schemas import Body, ChatMessage, StreamOptions, TextPart

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MAX_SHOWN: Final = 60
_MAX_PROBLEMS: Final = 8
_PARTS: Final[dict[str, type[Body]]] = {
    "messages": ChatMessage,
    "content": TextPart,
    "stream_options": StreamOptions,
}
"""The model of what lies inside a field."""

BodyT = TypeVar("BodyT", bound=Body)


class _Place(NamedTuple):
    """Where in a body something is wrong: `messages[0].content`, and what is allowed there."""

    path: str
    depth: int
    is_known: bool
    allowed: str

    def rank(self, problem: str) -> tuple[bool, int]:
        """Say how much a problem tells: a union that got no type it knows tells least."""
        return not problem.endswith("_type"), self.depth


def parse_body(raw: bytes, schema: type[BodyT]) -> BodyT:
    """Read a request body.

    Raises:
        ApiError: Not JSON, not an object, or a field is unknown, missing or out of range.
    """
    try:
        values = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"body: not valid JSON ({error})", code="invalid_json") from None
    if not isinstance(values, dict):
        raise ApiError(400, f"body: got {shown(values)}, allowed a JSON object")
    values = _without_neutral(values, schema)
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        # Without its cause: a trace of it would show the body.
        raise _refusal(error, values, schema) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _without_neutral(values: dict[str, Any], schema: type[Body]) -> dict[str, Any]:
    """Take out fields this route lacks where their value asks nothing; refuse other values."""
    for name in values.keys() & NEUTRAL_VALUES.keys() - schema.model_fields.keys():
        value = values[name]
        if value is not None and not any(_is_same(value, each) for each in NEUTRAL_VALUES[name]):
            raise ApiError(
                400,
                f"{name}: got {shown(value)}, not supported by this build; leave it out",
                param=name,
                code="unsupported_parameter",
            )
    return {
        name: value
        for name, value in values.items()
        if name in schema.model_fields or name not in NEUTRAL_VALUES
    }


def _refusal(error: ValidationError, values: dict[str, Any], schema: type[Body]) -> ApiError:
    """Word the most telling problem of each field."""
    worst: dict[str, tuple[tuple[bool, int], _Place, str]] = {}
    for detail in error.errors(include_url=False, include_context=False):
        place = _place(detail, values, schema)
        rank = place.rank(detail["type"])
        field = str(detail["loc"][0]) if detail["loc"] else "body"
        if field not in worst or rank > worst[field][0]:
            worst[field] = rank, place, _sentence(place, detail, schema)
    sentences = [sentence for _, _, sentence in worst.values()]
    n_left = len(sentences) - _MAX_PROBLEMS
    sentences = sentences[:_MAX_PROBLEMS] + ([f"and {n_left} more"] if n_left > 0 else [])
    _, first, _ = next(iter(worst.values()))
    return ApiError(400, "; ".join(sentences), param=first.path, code="invalid_value")


def _sentence(place: _Place, detail: ErrorDetails, schema: type[Body]) -> str:
    if detail["type"] == "string_unicode":
        return f"{place.path}: a name has a lone surrogate: {shown(detail['input'])}"
    if not place.is_known and place.depth == 1:
        known = ", ".join(sorted(schema.model_fields))
        return f"{place.path}: unknown parameter, allowed are {known}"
    if not place.is_known:
        return f"{place.path}: unknown, allowed {place.allowed}"
    if detail["type"] == "missing":
        return f"{place.path}: missing, allowed {place.allowed}"
    return f"{place.path}: got {shown(detail['input'])}, allowed {place.allowed}"


def _place(detail: ErrorDetails, values: dict[str, Any], schema: type[Body]) -> _Place:
    """Walk from the body to the value at fault, past the names pydantic gives union members."""
    location = detail["loc"]
    path, depth, allowed, is_known = "", 0, "", True
    at: Any = values
    model: type[Body] = schema
    for index, part in enumerate(location):
        is_missing = detail["type"] == "missing" and index == len(location) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            at = at[part] if isinstance(at, list) and part < len(at) else None
        elif isinstance(at, dict) and (part in at or is_missing):
            path += f".{shown_name(part)}" if path else shown_name(part)
            is_known = part in model.model_fields
            allowed = _allowed(model, part)
            at, model = at.get(part), _PARTS.get(part, model)
        else:
            continue
        depth += 1
    return _Place(path or "body", depth, is_known, allowed)


def _allowed(model: type[Body], name: str) -> str:
    field = model.model_fields.get(name)
    return ", ".join(sorted(model.model_fields)) if field is None else field.description or ""


def _is_same(value: Any, neutral: Any) -> bool:
    return type(value) is type(neutral) and bool(value == neutral)


def shown_name(name: str) -> str:
    """Show a field's name: its beginning, and only what any terminal and any client can show."""
    text = json.dumps(name[:_MAX_SHOWN])[1:-1]
    return text + "..." * (len(name) > _MAX_SHOWN)


def shown(value: Any) -> str:
    """Show the beginning of a value."""
    if isinstance(value, str):
        value = value[: _MAX_SHOWN + 1]
    elif isinstance(value, list):
        value = value[:_MAX_SHOWN]
    try:
        text = json.dumps(value, default=str)
    except RecursionError:
        return "something nested too deeply"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
