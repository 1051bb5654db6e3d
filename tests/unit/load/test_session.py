"""Preparing a run: the folder holds the whole intent, and nothing heavy is imported for it."""

import shutil
import subprocess
import sys
from argparse import Namespace
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.load import runner, session
from harness.load.resumed import resumed_session
from harness.plan.build import build_plan
from harness.records.lock import RunLock
from harness.records.request import Outcome, RequestRecord
from harness.records.run import RUNS_DIR, RunFolder
from harness.records.shard import ShardWriter
from harness.scenario.read import validate_scenario
from tests.e2e.truth_process import scenario_values
from tests.make_records import make_record
from tests.small_server import serving

DEAD = "http://127.0.0.1:9"


def test_a_prepared_folder_gives_back_scenario_and_plan(tmp_path: Path) -> None:
    """What `prepare` wrote, `reopen` reads, bit for bit."""
    scenario = validate_scenario(scenario_values(), "test")
    run = session.prepare(scenario, "http://127.0.0.1:9", tmp_path)
    opened = session.reopen(run.path)
    assert opened.scenario == scenario
    assert opened.plan == build_plan(scenario)
    meta = run.read_json("run.json")
    assert (meta["id"], meta["target"], meta["status"], meta["finished"]) == (
        run.id, "http://127.0.0.1:9", "running", None,
    )  # fmt: skip


def test_a_closed_run_says_how_it_ended(tmp_path: Path) -> None:
    """Complete or partial, with the time."""
    run = session.prepare(validate_scenario(scenario_values(), "test"), "http://a", tmp_path)
    session.close(run, is_complete=False)
    assert run.read_json("run.json")["status"] == "partial"
    session.close(run, is_complete=True)
    meta = run.read_json("run.json")
    assert meta["status"] == "complete"
    assert meta["finished"] >= meta["started"]


def test_the_target_can_be_set_afterwards(tmp_path: Path) -> None:
    """A host given to Locust replaces the one of `prepare`."""
    run = session.prepare(validate_scenario(scenario_values(), "test"), "http://a", tmp_path)
    session.set_target(run, "http://b")
    assert run.read_json("run.json")["target"] == "http://b"


def test_preparing_imports_neither_locust_nor_gevent() -> None:
    """The command line can prepare and start runs without patching its own process."""
    code = (
        "import sys, harness.load.session, harness.load.runner, harness.load.locust_options;"
        "sys.exit(len({'locust', 'gevent'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_load_process_gets_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locust's and our own options in the environment do not leak into a prepared run."""
    monkeypatch.setenv("LOCUST_USERS", "99")
    monkeypatch.setenv("TAILBREAK_SCENARIO", "other.toml")
    monkeypatch.setenv("TAILBREAK_API_KEY", "kept")
    environment = runner.load_environment()
    assert not {"LOCUST_USERS", "TAILBREAK_SCENARIO"} & set(environment)
    assert environment["TAILBREAK_API_KEY"] == "kept"


def test_the_locustfile_is_found() -> None:
    """The grid file, or the user classes' own file where the folder is not installed."""
    assert runner.locustfile().name in {"grid.py", "users.py"}
    assert runner.locustfile().is_file()


def test_a_log_that_cannot_be_written_is_a_setup_error(tmp_path: Path) -> None:
    """The folder is gone: the message says what could not be started."""
    run = make_run(tmp_path)
    with RunLock(run) as lock:
        shutil.rmtree(run.path)
        with pytest.raises(SetupError, match="cannot start the load process"):
            runner.start_load(run, "http://127.0.0.1:9", lock)


def make_run(folder: Path) -> RunFolder:
    return session.prepare(validate_scenario(scenario_values(), "test"), DEAD, folder)


def record(run: RunFolder, name: str, rows: list[RequestRecord]) -> None:
    """A session's shard, closed properly."""
    writer = ShardWriter(run.shards, name)
    for row in rows:
        writer.append(row)
    writer.close()


def test_a_later_session_gets_what_has_no_record(tmp_path: Path) -> None:
    """Recorded requests are left out, those a stop cancelled are sent again, numbers go on."""
    run = make_run(tmp_path)
    one, two, three = ((session.reopen(run.path).plan.segments[0].id, i) for i in (4, 5, 6))
    outcomes = {one: Outcome.OK, two: Outcome.CANCELLED, three: Outcome.HTTP_ERROR}
    record(
        run, "w1", [make_record(segment=s, index=i, outcome=o) for (s, i), o in outcomes.items()]
    )
    session.close(run, is_complete=False)
    session.resume(run, DEAD)
    opened = session.reopen(run.path)
    left = {(s.id, r.index) for s in opened.plan.segments for r in s.requests}
    assert opened.number == 2
    assert opened.n_done == 2
    assert two in left
    assert not {one, three} & left


def test_rows_of_its_own_session_change_no_plan(tmp_path: Path) -> None:
    """A second process of the same session, opened later, sees the same plan."""
    run = make_run(tmp_path)
    session.resume(run, DEAD)
    before = session.reopen(run.path)
    name = before.plan.segments[0].id
    record(run, "w2", [make_record(segment=name, index=5, session=2)])
    assert session.reopen(run.path) == before


def test_sessions_are_listed_with_their_clocks_and_ends(tmp_path: Path) -> None:
    """Each start of the load: number, times, boot, clock offset; a killed one has no end."""
    run = make_run(tmp_path)
    session.resume(run, "http://127.0.0.1:10")
    session.close(run, is_complete=True)
    value = run.read_json("run.json")
    killed, last = value["sessions"]
    assert [killed["number"], last["number"]] == [1, 2]
    assert killed["ended"] is None
    assert last["ended"] == value["finished"]
    assert killed["boot_id"] == last["boot_id"] != "unknown"
    drift_ns = killed["realtime_minus_monotonic_ns"] - last["realtime_minus_monotonic_ns"]
    assert abs(drift_ns) < 1_000_000_000
    assert (killed["target"], value["target"]) == (DEAD, "http://127.0.0.1:10")
    assert run.has("environment-2.json")


def test_a_target_without_the_runs_model_is_refused(tmp_path: Path) -> None:
    """Begun on `truth`, resumed where it is not served: both are named, nothing is noted."""
    run = make_run(tmp_path)
    value = run.read_json("run.json")
    value["sessions"][0]["models"] = ["truth"]
    run.write_json("run.json", value)
    with (
        scripted_server(models='{"data": [{"id": "other"}]}') as url,
        pytest.raises(SetupError, match=r"does not serve truth any more.*it serves other"),
    ):
        resumed_session(options_of(run.path), url)
    assert len(run.read_json("run.json")["sessions"]) == 1
    RunLock(run).release()  # a refusal holds nothing back


def options_of(run: Path, **given: str) -> Namespace:
    """What Locust's command line says of `--resume` and of what was given beside it."""
    usual = {"scenario": None, "run_folder": None, "runs_dir": str(RUNS_DIR)}
    return Namespace(resume=str(run), **{**usual, **given})


@pytest.mark.parametrize("option", ["scenario", "run_folder", "runs_dir"])
def test_what_a_resumed_run_would_ignore_is_refused(tmp_path: Path, option: str) -> None:
    """Locust's options for a new run are named, and nothing is noted."""
    run = make_run(tmp_path)
    with pytest.raises(SetupError, match=f"--{option.replace('_', '-')} cannot be given"):
        resumed_session(options_of(run.path, **{option: "elsewhere"}), DEAD)
    assert len(run.read_json("run.json")["sessions"]) == 1


def test_a_target_says_what_it_is() -> None:
    """Models and version where it tells them, None where it does not or is not there."""
    with scripted_server(models='{"data": [{"id": "b"}, {"id": "a"}]}', version='"1.2"') as url:
        assert session.identify_target(url, None) == {
            "models": ["a", "b"], "version": "1.2", "kernels": None,
        }  # fmt: skip
    ours = '{"data": [{"id": "a", "kernels": "avx2"}]}'
    with scripted_server(models=ours) as url:
        assert session.identify_target(url, None)["kernels"] == "avx2"
    with scripted_server(models="[]") as url:
        assert session.identify_target(url, None) == dict.fromkeys(("models", "version", "kernels"))
    assert session.identify_target(DEAD, None) == dict.fromkeys(("models", "version", "kernels"))


@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "broken off"])
@pytest.mark.parametrize(("n_left", "status"), [(1, "partial"), (0, "complete")])
def test_a_run_is_settled_by_its_rows(
    tmp_path: Path,
    n_left: int,
    status: str,
    is_closed: bool,  # noqa: FBT001
) -> None:
    """Its load could not say how it ended, or called it partial at its very end: the rows tell."""
    run = make_run(tmp_path)
    if is_closed:
        session.close(run, is_complete=False)
    planned = [(s.id, r.index) for s in session.reopen(run.path).plan.segments for r in s.requests]
    record(run, "w1", [make_record(segment=s, index=i) for s, i in planned[n_left:]])
    session.settle(run)
    assert run.read_json("run.json")["status"] == status


def scripted_server(models: str, version: str | None = None) -> AbstractContextManager[str]:
    """Answers `/v1/models` with this text and `/version` with this version."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            bodies = {"/v1/models": models}
            if version is not None:
                bodies["/version"] = f'{{"version": {version}}}'
            body = bodies.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

    return serving(Handler)
