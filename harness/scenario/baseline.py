"""The earlier run that a run is measured against: checked before anything is sent, and noted."""

from pathlib import Path

from harness.base.errors import RecordError, SetupError
from harness.records.about import read_about
from harness.records.environment import describe
from harness.records.run import RunFolder
from harness.scenario.comparable import Described, differences
from harness.scenario.read import stored_scenario
from harness.scenario.schema import Scenario

KEY = "baseline"


def require_baseline(path: Path | None, scenario: Scenario) -> dict[str, str]:
    """What `run.json` notes of a baseline that fits the run to come; nothing without one.

    Raises:
        RecordError: no run is there.
        SetupError: it cannot be a baseline, with every reason.
    """
    if path is None:
        return {}
    before = read_description(RunFolder.open(path))
    now = Described(scenario=scenario, environment=describe(), target=before.target)
    require_comparable(path.resolve().name, before, now)
    return {KEY: str(path.resolve())}


def read_description(run: RunFolder) -> Described:
    """What a stored run was.

    Raises:
        RecordError: a file of the run is missing or damaged.
    """
    return Described(
        scenario=stored_scenario(run),
        environment={k: str(v) for k, v in run.read_object("environment.json").items()},
        target=read_about(run)["target"],
    )


def require_comparable(name: str, reference: Described, candidate: Described) -> tuple[str, ...]:
    """What a reader must know of the differences.

    Raises:
        SetupError: the two cannot be compared, with every reason.
    """
    found = differences(reference, candidate)
    if found.refusals:
        lines = "\n".join(f"  {reason}" for reason in found.refusals)
        raise SetupError(
            f"run {name} cannot be the baseline; these must be the same:\n{lines}\n"
            "measure a new baseline, or leave --baseline out"
        )
    return found.caveats


def recorded_baseline(run: RunFolder) -> Path | None:
    """The baseline that the run was started against, if any.

    Raises:
        RecordError: it is no longer there.
    """
    noted = read_about(run).get(KEY)
    if noted is None:
        return None
    path = Path(str(noted))
    if not (path / "run.json").is_file():
        raise RecordError(f"{path}: the baseline of this run is gone; name it with --baseline RUN")
    return path
