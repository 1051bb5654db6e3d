"""TOML file to a strict model: every problem at once, with its place and what is allowed there.

Knows no concept: scenarios and the laws of the truth server are read the same way.
"""

import difflib
import tomllib
import types
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.base.errors import Problem, ScenarioError

MAX_BYTES = 1_000_000
Model = TypeVar("Model", bound=BaseModel)


def read_text(path: Path, example: str) -> str:
    """The text of this file; `example` names a file that is right.

    Raises:
        ScenarioError: the file is missing, too large or no UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)  # a device has no end
        if len(raw) > MAX_BYTES:
            problem = Problem(
                where="(file)",
                got=f"more than {MAX_BYTES:,} bytes",
                allowed=f"at most {MAX_BYTES:,} bytes",
            )
            raise ScenarioError(str(path), [problem])
        return raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else str(error)
        problem = Problem(
            where="(file)", got=str(got), allowed="a readable UTF-8 TOML file", hint=example
        )
        raise ScenarioError(str(path), [problem]) from error


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """The plain values of this TOML text; `file` names it in messages.

    Raises:
        ScenarioError: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError alone: an endless number
        problem = Problem(where="(file)", got=str(error), allowed="TOML 1.0")
        raise ScenarioError(file, [problem]) from error


def validate(model: type[Model], values: dict[str, Any], file: str) -> Model:
    """The model that these plain values describe.

    Raises:
        ScenarioError: with every problem found.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [_problem(model, item) for item in error.errors()]
        raise ScenarioError(file, problems) from error


def _problem(model: type[BaseModel], item: ErrorDetails) -> Problem:
    where = ".".join(str(part) for part in item["loc"]) or "(file)"
    got = _shorten(item["input"])
    context = item.get("ctx", {})
    match item["type"]:
        case "extra_forbidden":
            known = _known_keys(model, item["loc"][:-1])
            close = difflib.get_close_matches(str(item["loc"][-1]), known, n=1)
            return Problem(
                where=where,
                got=f"an unknown key with {got}",
                allowed=", ".join(known),
                hint=close[0] if close else "",
            )
        case "missing":
            return Problem(where=where, got="nothing", allowed="a value: this key is required")
        case "value_error":
            return Problem(where=where, got="", allowed=str(context["error"]))
        case _:
            return Problem(where=where, got=got, allowed=_lower_first(item["msg"]))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _shorten(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # deeper, or with more digits, than Python shows
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _known_keys(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Keys that the model at this key path accepts."""
    for part in path:
        if isinstance(part, int):
            continue  # a place in a list: the keys are those of its items
        field = model.model_fields.get(part)
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list):
        return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
    return None
