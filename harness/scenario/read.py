"""TOML file to Scenario: every problem at once, each with its place and what is allowed there."""

from pathlib import Path
from typing import Any

from harness.base.errors import Problem, ScenarioError
from harness.records.run import RunFolder
from harness.scenario.schema import Scenario
from harness.scenario.toml_file import parse_toml, read_text, validate

EXAMPLE = "scenarios/quickstart.toml"


def read_scenario(path: Path) -> Scenario:
    """The scenario in this file.

    Raises:
        ScenarioError: the file is missing, no TOML, or says something that is not allowed.
    """
    return parse_scenario(read_text(path, EXAMPLE), str(path))


def parse_scenario(text: str, file: str) -> Scenario:
    """The scenario in this TOML text; `file` names it in messages.

    Raises:
        ScenarioError: with every problem found.
    """
    values = parse_toml(text, file)
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
    return validate(Scenario, values, file)


def stored_scenario(run: RunFolder) -> Scenario:
    """The scenario that a run was made with.

    Raises:
        RecordError: its file is missing or damaged.
        ScenarioError: it is not valid.
    """
    return validate_scenario(run.read_json("scenario.json"), str(run.path / "scenario.json"))
