"""What happens before the first send: the target answers, the run folder holds the whole intent.

A run is made in one session or, after a crash or a stop, in several: each start of its load is
one. Shared by `tailbreak run` and by a bare `locust -f locustfiles/grid.py`; imports neither Locust
nor gevent.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.base.api_key import read_api_key
from harness.base.clock import SystemClock, sample_offset_ns
from harness.base.errors import SetupError
from harness.load.client.endpoint import resolve
from harness.load.client.exchange import bounded
from harness.load.client.models import listed_models
from harness.load.client.plain_http import PlainHttp, Reply
from harness.plan.build import build_plan
from harness.plan.codec import plan_from_json, plan_to_json
from harness.plan.plan import Plan
from harness.plan.rest import Key, rest_of
from harness.records.about import read_about
from harness.records.environment import boot_id, describe
from harness.records.lock import RunLock
from harness.records.request import Outcome
from harness.records.run import RunFolder, new_run_id
from harness.records.store import read_rows
from harness.scenario.read import stored_scenario
from harness.scenario.schema import Scenario

CHECK_TIMEOUT_S = 10.0
MAX_MODELS = 50


@dataclass(frozen=True, kw_only=True)
class Session:
    """A prepared run, read back from its folder.

    Attributes:
        run: its folder.
        scenario: what is wanted.
        whole: everything that is intended.
        plan: what this session has to send: all of it, or what earlier sessions left.
        number: which session this is, from 1.
        n_done: planned requests that earlier sessions recorded.
        lock: keeps others from writing into the run, where this process has to.
    """

    run: RunFolder
    scenario: Scenario
    whole: Plan
    plan: Plan
    number: int
    n_done: int
    lock: RunLock | None = None

    @property
    def n_segments_done(self) -> int:
        """Segments that earlier sessions finished."""
        return len(self.whole.segments) - len(self.plan.segments)


def prepare(scenario: Scenario, url: str, runs_dir: Path, *, is_bundled: bool = False) -> RunFolder:
    """A run folder with scenario, plan, environment and its first session, nothing sent yet.

    `is_bundled`: the target is the bundled server, started for this run.

    Raises:
        SetupError: the folder cannot be made, or the target's key is missing.
    """
    plan, entry = build_plan(scenario), _opened(1, scenario, url)
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
            "started": entry["started"],
            "status": "running",
            "finished": None,
            "is_bundled": is_bundled,
            "sessions": [entry],
        },
    )
    return run


def resume(run: RunFolder, url: str) -> None:
    """Note the start of another session on this target; nothing sent yet.

    Raises:
        SetupError: the target does not serve what the run was begun on, or its key is missing.
        RecordError: the run cannot be read, or the note not be written.
    """
    scenario, value = stored_scenario(run), read_about(run)
    sessions = value["sessions"]
    entry = _opened(len(sessions) + 1, scenario, url)
    _require_same_model(scenario.target.model, sessions[0], entry)
    run.write_json(run.file_of_session("environment.json", entry["number"]), describe())
    value |= {"target": url, "status": "running", "finished": None}
    run.write_json("run.json", {**value, "sessions": [*sessions, entry]})


def reopen(path: Path) -> Session:
    """The run's last session, as `prepare` or `resume` left it in this folder.

    Raises:
        RecordError: no run is there, or it is damaged.
        ScenarioError: its scenario is not valid.
    """
    run = RunFolder.open(path)
    scenario = stored_scenario(run)
    whole = plan_from_json(run.read_json("plan.json"))
    number = len(read_about(run)["sessions"])
    done = recorded(run, before=number)
    return Session(
        run=run, scenario=scenario, whole=whole, plan=rest_of(whole, done, number), number=number,
        n_done=len(done),
    )  # fmt: skip


def recorded(run: RunFolder, before: int | None = None) -> frozenset[Key]:
    """Planned requests with a record, of the sessions before this one or of all.

    A request that was cancelled when its session was stopped has none yet: it says nothing of the
    target.

    Raises:
        RecordError: the rows cannot be read.
    """
    columns = read_rows(run).table.select(["segment", "index", "session", "outcome"]).to_pydict()
    return frozenset(
        (segment, index)
        for segment, index, session, outcome in zip(*columns.values(), strict=True)
        if index >= 0 and outcome != Outcome.CANCELLED and (before is None or session < before)
    )


def set_target(run: RunFolder, url: str) -> None:
    """Note where the run's requests go, when that was decided after `prepare`."""
    value = read_about(run)
    if value["target"] != url:
        run.write_json("run.json", {**value, "target": url})


def target_to_resume(run: RunFolder) -> str | None:
    """Where the run's requests went; None where the bundled server was started for it."""
    value = read_about(run)
    scenario = run.read_json("scenario.json")
    is_bundled = value.get("is_bundled", scenario["target"]["url"] is None)
    return None if is_bundled else str(value["target"])


def close(run: RunFolder, *, is_complete: bool) -> None:
    """Write how the run's session ended."""
    value = read_about(run)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    sessions = value["sessions"]
    sessions[-1] = {**sessions[-1], "ended": now}
    value |= {"status": "complete" if is_complete else "partial", "finished": now}
    run.write_json("run.json", {**value, "sessions": sessions})


def settle(run: RunFolder) -> None:
    """Say how the run stands by what is recorded, where its load did not call it complete.

    It was killed before it could, or broke off when it had recorded everything. The end of a killed
    session stays unknown.
    """
    value = read_about(run)
    if value["status"] != "complete":
        n_missing = plan_from_json(run.read_json("plan.json")).n_requests - len(recorded(run))
        run.write_json("run.json", {**value, "status": "partial" if n_missing else "complete"})


def _opened(number: int, scenario: Scenario, url: str) -> dict[str, Any]:
    """What `run.json` says of a session that starts now."""
    return {
        "number": number,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "ended": None,
        "boot_id": boot_id(),
        "realtime_minus_monotonic_ns": sample_offset_ns(SystemClock()),
        "target": url,
        **identify_target(url, api_key(scenario)),
    }


def _require_same_model(model: str, first: dict[str, Any], now: dict[str, Any]) -> None:
    """Half a run on another model would be compared with itself."""
    before, serves = first.get("models") or [], now["models"] or []
    if model in before and serves and model not in serves:
        raise SetupError(
            f"{now['target']} does not serve {model} any more, on which this run was begun; it "
            f"serves {', '.join(serves)}: start that model, or a new run"
        )


def api_key(scenario: Scenario) -> str | None:
    """The key from the environment variable the scenario names.

    Raises:
        SetupError: the variable holds no key.
    """
    name = scenario.target.api_key_env
    return None if name is None else read_api_key(name, "target.api_key_env")


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


def identify_target(url: str, key: str | None) -> dict[str, Any]:
    """What the target says it is: its models and its version, each None where it does not say."""
    http = PlainHttp(url, key, timeout_s=CHECK_TIMEOUT_S)
    try:
        listing = _get(http, "/v1/models")
        models = listed_models(listing)
        version = _get(http, "/version").get("version") if models else None
    except SetupError:
        listing, models, version = {}, (), None
    finally:
        http.close()
    return {
        "models": [bounded(name) for name in sorted(models)[:MAX_MODELS]] or None,
        "version": bounded(version) if isinstance(version, str) else None,
        "kernels": _kernels(listing) if models else None,
    }


def _kernels(listing: dict[str, Any]) -> str | None:
    """Which build of our own kernels answers; other servers say nothing of theirs."""
    first = listing["data"][0]
    name = first.get("kernels") if isinstance(first, dict) else None
    return bounded(name) if isinstance(name, str) else None


def _get(http: PlainHttp, path: str) -> dict[str, Any]:
    """The JSON object at a path; empty where there is none."""
    reply = http.get(path)
    value = reply.json() if reply.status == 200 else None
    return value if isinstance(value, dict) else {}


def _is_there(reply: Reply) -> bool:
    return reply.status == 200


def _advice(reply: Reply) -> str:
    if reply.status in {401, 403}:
        return "name the key's variable with target.api_key_env"
    return "is this an OpenAI-compatible server, and is the address right?"
