"""What happens before the first send: the target answers, the run folder holds the whole intent.

Shared by `tailbreak run` and by a bare `locust -f locustfiles/grid.py`; imports neither Locust nor
gevent.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.base.errors import SetupError
from harness.load.client.endpoint import resolve
from harness.load.client.plain_http import PlainHttp, Reply
from harness.plan.build import build_plan
from harness.plan.codec import plan_from_json, plan_to_json
from harness.plan.plan import Plan
from harness.records.environment import describe
from harness.records.run import RunFolder, new_run_id
from harness.scenario.read import validate_scenario
from harness.scenario.schema import Scenario

CHECK_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Session:
    """A prepared run, read back from its folder."""

    run: RunFolder
    scenario: Scenario
    plan: Plan


def prepare(scenario: Scenario, url: str, runs_dir: Path) -> RunFolder:
    """A run folder with scenario, plan and environment, nothing sent yet.

    Raises:
        SetupError: the folder cannot be made.
    """
    plan = build_plan(scenario)
    started = datetime.now(UTC)
    run = RunFolder.create(runs_dir, new_run_id(scenario.name, started))
    run.write_json("scenario.json", scenario.resolved())
    run.write_json("plan.json", plan_to_json(plan))
    run.write_json("environment.json", describe())
    run.write_json(
        "run.json",
        {
            "id": run.id,
            "scenario": scenario.name,
            "target": url,
            "started": started.isoformat(timespec="seconds"),
            "status": "running",
            "finished": None,
        },
    )
    return run


def reopen(path: Path) -> Session:
    """The session that `prepare` left in this folder.

    Raises:
        RecordError: no run is there, or it is damaged.
        ScenarioError: its scenario is not valid.
    """
    run = RunFolder.open(path)
    scenario = validate_scenario(run.read_json("scenario.json"), str(path / "scenario.json"))
    return Session(run=run, scenario=scenario, plan=plan_from_json(run.read_json("plan.json")))


def set_target(run: RunFolder, url: str) -> None:
    """Note where the run's requests go, when that was decided after `prepare`."""
    value = run.read_json("run.json")
    if value["target"] != url:
        run.write_json("run.json", {**value, "target": url})


def close(run: RunFolder, *, is_complete: bool) -> None:
    """Write how the run ended."""
    value = run.read_json("run.json")
    value["status"] = "complete" if is_complete else "partial"
    value["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    run.write_json("run.json", value)


def api_key(scenario: Scenario) -> str | None:
    """The key from the environment variable the scenario names.

    Raises:
        SetupError: the variable is not set.
    """
    name = scenario.target.api_key_env
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise SetupError(
            f"target.api_key_env names {name}, which is not set; export {name}=... and start again"
        )
    return key


def check_target(url: str, key: str | None) -> None:
    """Require that something that serves models answers at this URL.

    Raises:
        SetupError: what came instead, and what to do.
    """
    resolve(url)
    http = PlainHttp(url, key, timeout_s=CHECK_TIMEOUT_S)
    try:
        replies = [("/v1/models", http.get("/v1/models"))]
        if _is_there(replies[0][1]):
            return
        replies.append(("/healthz", http.get("/healthz")))
    finally:
        http.close()
    if replies[1][1].status == 200:
        return
    came = ", ".join(f"{path} answered {reply.status}" for path, reply in replies)
    raise SetupError(f"{url}: {came}: {replies[0][1].shown()}; {_advice(replies[0][1])}")


def _is_there(reply: Reply) -> bool:
    return reply.status == 200


def _advice(reply: Reply) -> str:
    if reply.status in {401, 403}:
        return "name the key's variable with target.api_key_env"
    return "is this an OpenAI-compatible server, and is the address right?"
