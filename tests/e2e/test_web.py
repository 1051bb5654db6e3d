"""Locust's web page: runs are started, stopped and started again there."""

import json
import re
import signal
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from harness.records.run import RunFolder
from tests.e2e.locust_process import Locust, free_port, wait_for
from tests.e2e.truth_process import Truth, records_of, scenario_values, truth_server

pytestmark = pytest.mark.e2e
SECRET = "sk-very-secret"


class Page:
    """The page of a Locust process, by its own routes."""

    def __init__(self, folder: Path, truth: Truth, *options: str, values: dict[str, Any]) -> None:
        port, master = str(free_port()), str(free_port())
        self.url = f"http://127.0.0.1:{port}"
        self.process = Locust(
            folder, truth.url, "--web-port", port, "--master-bind-port", master,
            "--master-port", master, *options, values=values, with_report=False,
        )  # fmt: skip
        wait_for(lambda: "Locust" in self.text("/"))

    def __enter__(self) -> Self:
        """Leave no process behind."""
        return self

    def __exit__(self, *error: object) -> None:
        """Kill what still runs."""
        self.process.__exit__(*error)

    def text(self, path: str, **form: str | int) -> str:
        """What a route answers; with a form it is posted."""
        data = urllib.parse.urlencode(form).encode() if form else None
        try:
            with urllib.request.urlopen(self.url + path, data, timeout=60) as reply:
                body: bytes = reply.read()
                return body.decode()
        except OSError:
            return ""

    def start(self, host: str, **form: str | int) -> dict[str, Any]:
        """The start button."""
        answer: dict[str, Any] = json.loads(
            self.text("/swarm", user_count=1, spawn_rate=1, host=host, **form)
        )
        return answer

    def stats(self) -> Any:
        """What the page's tables and charts are drawn from."""
        return json.loads(self.text("/stats/requests"))


@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["one", "two"])
def test_runs_are_started_stopped_and_started_again(
    tmp_path: Path, processes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start is a run folder of its own, on the host that was typed, with the users needed."""
    monkeypatch.setenv("TRUTH_KEY", SECRET)
    values = scenario_values(concurrency=3, requests_per_cell=60)
    values["target"]["api_key_env"] = "TRUTH_KEY"
    with (
        truth_server(ttft_ms=250) as truth,
        truth_server() as other,
        Page(tmp_path, truth, *processes, values=values) as page,
    ):
        assert_the_form_offers_what_is_needed(page.text("/"))
        assert page.process.run_folders == []
        if processes:
            wait_for(lambda: page.stats()["worker_count"] == 2)
        assert page.start(truth.url)["success"]
        wait_for(lambda: page.stats()["user_count"] == 3)
        wait_for(lambda: len(truth.log()) >= 10)
        refused = page.start(truth.url)
        assert (refused["success"], "stop it" in refused["message"]) == (False, True)
        assert json.loads(page.text("/stop", x=1))["success"]
        assert_the_stopped_run_is_whole(page, len(truth.log()))
        assert_refusals_name_what_is_wrong(page)
        assert page.start(other.url)["success"]
        wait_for(lambda: len(page.process.run_folders) == 2)
        second = page.process.run_folders[1]
        wait_for(lambda: '"done"' in progress_of(second))
        wait_for(lambda: page.stats()["state"] == "stopped")
        shown, logs = page.text("/"), page.text("/logs")
        page.process.process.send_signal(signal.SIGTERM)
        code, output = page.process.to_end()
        log = other.log()
    _, records = records_of(second)
    assert code == 0, output
    assert len(records) == len(log) == 2 * (60 + 2 * 4)
    assert RunFolder.open(second).read_json("run.json")["target"] == other.url
    assert "-u 1 is not used: the scenario needs 3 users" in logs
    assert SECRET not in shown + logs + output


def progress_of(run: Path) -> str:
    path = run / "progress.json"
    return path.read_text() if path.is_file() else ""


def assert_the_form_offers_what_is_needed(page: str) -> None:
    """Scenario and folder of runs can be edited, a prepared folder not; the users are filled in."""
    (text,) = re.findall(r"window.templateArgs = (\{.*\})", page)
    fields = json.loads(text)
    assert set(fields["extra_options"]) >= {"scenario", "runs_dir"}
    assert "run_folder" not in fields["extra_options"]
    assert fields["num_users"] == 3


def assert_the_stopped_run_is_whole(page: Page, n_sent: int) -> None:
    """Stopped: every request that was sent has its row, and the page has counted it."""
    session, records = records_of(page.process.run_folder)
    assert len(records) == n_sent < session.plan.n_requests
    assert all(record.outcome.is_ok for record in records)
    assert session.run.read_json("run.json")["status"] == "partial"
    wait_for(lambda: page.stats()["stats"][-1]["num_requests"] == n_sent)


def assert_refusals_name_what_is_wrong(page: Page) -> None:
    """A host nobody listens at, a file that is not there: said on the page, no folder made."""
    for wrong, words in (
        ({"host": "http://127.0.0.1:9"}, "127.0.0.1:9"),
        ({"host": page.url, "scenario": "nothing.toml"}, "nothing.toml"),
    ):
        answer = page.start(**wrong)
        assert answer["success"] is False
        assert words in answer["message"]
    assert len(page.process.run_folders) == 1


def test_each_run_of_the_page_has_its_metrics_on_the_same_port(tmp_path: Path) -> None:
    """The port answers while a run goes on, with that run's id; the next run takes it over."""
    port = free_port()
    with (
        truth_server() as truth,
        Page(tmp_path, truth, "--metrics-port", str(port), values=scenario_values()) as page,
    ):
        for n_runs in (1, 2):
            assert page.start(truth.url)["success"]
            wait_for(partial(_has_ended, page, n_runs, port))
            wait_for(lambda: page.stats()["state"] == "stopped")


def _has_ended(page: Page, n_runs: int, port: int) -> bool:
    """Whether this run of the page has, by its own metrics."""
    runs = page.process.run_folders
    return len(runs) == n_runs and f'mc_load_up{{run="{runs[-1].name}"}} 0' in _metrics(port)


def _metrics(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""
