"""TOML file to Scenario: every problem at once, each with its place and what is allowed there."""

import difflib
import tomllib
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.base.errors import Problem, ScenarioError
from harness.scenario.schema import Scenario

MAX_BYTES = 1_000_000


def read_scenario(path: Path) -> Scenario:
    """The scenario in this file.

    Raises:
        ScenarioError: the file is missing, no TOML, or says something that is not allowed.
    """
    return parse_scenario(_read_text(path), str(path))


def parse_scenario(text: str, file: str) -> Scenario:
    """The scenario in this TOML text; `file` names it in messages.

    Raises:
        ScenarioError: with every problem found.
    """
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = Problem(where="(file)", got=str(error), allowed="TOML 1.0")
        raise ScenarioError(file, [problem]) from error
    scenario = validate_scenario(values, file)
    problems = _ignored_keys(values, scenario)
    if problems:
        raise ScenarioError(file, problems)
    return scenario


def _ignored_keys(values: dict[str, Any], scenario: Scenario) -> list[Problem]:
    """Keys that the file gives and this scenario would not use: never dropped in silence."""
    load, target = values.get("load", {}), values.get("target", {})
    closed = scenario.load.mode == "closed"
    unused = {"users", "arrivals"} if closed else {"concurrency", "think_time_s"}
    other = "open" if closed else "closed"
    problems = [
        Problem(where=f"load.{key}", got="", allowed=f"only with load.mode = '{other}'")
        for key in sorted(unused & set(load))
    ]
    if "url" in target and "server" in target:
        allowed = "only without target.url: these are options of the bundled server"
        problems.append(Problem(where="target.server", got="", allowed=allowed))
    if scenario.cot.depth == 0 and "cot_depth" not in scenario.axes.given():
        allowed = "only with cot.depth above 0 or axes.cot_depth: there is no reasoning step"
        problems += [
            Problem(where=f"cot.{key}", got="", allowed=allowed)
            for key in sorted(set(values.get("cot", {})) - {"depth"})
        ]
    return problems


def validate_scenario(values: dict[str, Any], file: str) -> Scenario:
    """The scenario that these plain values describe.

    Raises:
        ScenarioError: with every problem found.
    """
    try:
        return Scenario.model_validate(values)
    except ValidationError as error:
        raise ScenarioError(file, [_problem(item) for item in error.errors()]) from error


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            problem = Problem(
                where="(file)", got=f"{len(raw):,} bytes", allowed=f"at most {MAX_BYTES:,} bytes"
            )
            raise ScenarioError(str(path), [problem])
        return raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else str(error)
        problem = Problem(
            where="(file)",
            got=str(got),
            allowed="a readable UTF-8 TOML file",
            hint="scenarios/quickstart.toml",
        )
        raise ScenarioError(str(path), [problem]) from error


def _problem(item: ErrorDetails) -> Problem:
    where = ".".join(str(part) for part in item["loc"]) or "(file)"
    got = _shorten(item["input"])
    context = item.get("ctx", {})
    match item["type"]:
        case "extra_forbidden":
            known = _known_keys(item["loc"][:-1])
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
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _known_keys(path: tuple[int | str, ...]) -> list[str]:
    """Keys that the model at this key path accepts."""
    model: type[BaseModel] = Scenario
    for part in path:
        field = model.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
    return None
