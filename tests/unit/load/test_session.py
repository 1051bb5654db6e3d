"""Preparing a run: the folder holds the whole intent, and nothing heavy is imported for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.load import runner, session
from harness.plan.build import build_plan
from harness.records.run import RunFolder
from harness.scenario.read import validate_scenario
from tests.e2e.truth_process import scenario_values


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
    with pytest.raises(Exception, match="cannot start the load process"):
        runner.start_load(RunFolder(tmp_path / "gone"), "http://127.0.0.1:9")
