"""Whether two runs may be compared: what must be the same, and what may differ with a word.

A comparison says that the server changed. So what is asked of the server and the machine that
asks must be the same, or the answer could be theirs. Versions, address and the bundled server's
options may differ: they may be what is tested, and are said. How much was measured, and what is
asked of the records, may differ in silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from harness.scenario.schema import Scenario

HARDWARE: Final = ("machine", "cpu", "cores")
IN_SILENCE: Final = (
    "schema", "name", "title", "seed", "axes.", "analysis.", "limits.", "load.requests_per_cell",
    "load.segments_per_cell", "load.warmup_requests", "target.url", "target.api_key_env",
    "fidelity",
)  # fmt: skip
WITH_A_WORD: Final = (
    "target.server.", "target.service", "target.version", "load.users",
    "load.connect_timeout_s", "load.idle_timeout_s", "load.total_timeout_s",
)  # fmt: skip
AXIS_OF_KEY: Final = {"cot.depth": "cot_depth"}
ABSENT: Final = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a run was: its scenario, its machine and versions, its target's address."""

    scenario: Scenario
    environment: Mapping[str, str]
    target: str


@dataclass(frozen=True, kw_only=True)
class Differences:
    """How two runs differ.

    Attributes:
        refusals: differences that forbid a comparison.
        caveats: differences that a reader must know.
    """

    refusals: tuple[str, ...]
    caveats: tuple[str, ...]


def differences(reference: Described, candidate: Described) -> Differences:
    """Everything that differs and is not silent; reads `key: X in the baseline, Y here`."""
    caveats: list[str] = []
    refusals = list(_grids(reference.scenario, candidate.scenario))
    for key, before, after in _settings(reference.scenario, candidate.scenario):
        line = f"{key}: {before} in the baseline, {after} here"
        (caveats if key.startswith(WITH_A_WORD) else refusals).append(line)
    for key, before, after in _pairs(reference.environment, candidate.environment):
        line = f"{key}: {before} in the baseline, {after} here"
        is_other_machine = key in HARDWARE and ABSENT not in {before, after}
        (refusals if is_other_machine else caveats).append(line)
    hosts = [urlsplit(run.target).hostname or run.target for run in (reference, candidate)]
    if hosts[0] != hosts[1]:
        caveats.append(f"the server's host: {hosts[0]} in the baseline, {hosts[1]} here")
    return Differences(refusals=tuple(refusals), caveats=tuple(caveats))


def _grids(reference: Scenario, candidate: Scenario) -> Iterator[str]:
    """Grids without a common cell."""
    before, after = reference.axes.given(), candidate.axes.given()
    if set(before) != set(after):
        yield f"axes: {', '.join(before)} in the baseline, {', '.join(after)} here"
        return
    for name, values in after.items():
        if not set(values) & set(before[name]):
            yield f"axes.{name}: {before[name]} in the baseline, {values} here, none in common"


def _settings(reference: Scenario, candidate: Scenario) -> Iterator[tuple[str, str, str]]:
    """Values in force that differ; a value that an axis of both grids overrides is not in force."""
    both = reference.axes.given().keys() & candidate.axes.given().keys()
    for key, before, after in _pairs(_flat(reference.resolved()), _flat(candidate.resolved())):
        axis = AXIS_OF_KEY.get(key, key.rpartition(".")[2])
        if axis not in both and not key.startswith(IN_SILENCE):
            yield key, before, after


def _pairs(
    reference: Mapping[str, str], candidate: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    for key in dict.fromkeys((*reference, *candidate)):
        before, after = reference.get(key, ABSENT), candidate.get(key, ABSENT)
        if before != after:
            yield key, before, after


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested tables as dotted keys."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)
    return flat
