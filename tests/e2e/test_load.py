"""Whole load runs: Locust in its own process against a server that knows the truth."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.base.errors import SetupError
from harness.load import runner, session
from harness.records.lock import RunLock
from harness.records.request import Outcome
from harness.records.run import RunFolder
from harness.scenario.read import validate_scenario
from tests.e2e.locust_process import LIMIT_S, ROOT, Locust, free_port, run_locust, wait_for
from tests.e2e.truth_process import (
    Truth,
    records_of,
    scenario_values,
    true_entries,
    truth_server,
)

pytestmark = pytest.mark.e2e
COUNTING = """
import json
from locust import events
from harness.load.users import GridUser

calls = []

@events.request.add_listener
def note(request_type, name, response_time, response_length, exception, context, **_):
    calls.append([request_type, name, response_time, response_length, repr(exception), context])

@events.quit.add_listener
def write(**_):
    with open("calls.json", "w") as file:
        json.dump(calls, file)
"""


def test_a_headless_run_measures_what_the_server_did(tmp_path: Path) -> None:
    """No -u, -r, -t: the plan is recorded, stamps agree with the truth, one event per call."""
    counting = tmp_path / "counting.py"
    counting.write_text(COUNTING)
    with truth_server(ttft_ms=15, gap_ms=3) as truth:
        code, output, process = run_locust(tmp_path, truth.url, locustfile=counting)
        log = truth.log()
    assert code in (0, 5), output  # a busy machine may leave too little to judge
    assert "report.html" in output
    opened, records = records_of(process.run_folder)
    assert len(records) == len(log) == opened.plan.n_requests == 56
    assert {record.outcome for record in records} == {Outcome.OK_LENGTH}
    assert_stamps_are_true(true_entries(opened, records, log))
    calls = json.loads((tmp_path / "calls.json").read_text())
    assert_one_event_per_call(calls, records)
    assert opened.run.read_json("progress.json")["state"] == "done"
    assert opened.run.read_json("run.json")["status"] == "complete"


def assert_stamps_are_true(pairs: list[tuple[Any, Any]]) -> None:
    """In the median the first token is stamped within 2 ms of its send, never before it."""
    errors_ms = sorted((r.first_token_ns - e["token_ns"][0]) / 1e6 for r, e in pairs)
    assert errors_ms[0] > -1
    assert errors_ms[len(errors_ms) // 2] < 2
    for record, entry in pairs:
        assert record.n_output_tokens == len(entry["token_ns"]) == len(record.token_ns)
        assert record.sent_ns <= record.first_token_ns <= record.done_ns


def assert_one_event_per_call(calls: list[list[Any]], records: list[Any]) -> None:
    """Locust heard of each record exactly once, with E2E milliseconds and few names."""
    assert len(calls) == len(records)
    heard = {(call[5]["segment"], call[5]["index"]): call for call in calls}
    assert {call[0] for call in calls} == {"POST"}
    assert {call[1] for call in calls} == {
        "/v1/chat/completions [c00]", "/v1/chat/completions [c01]",
    }  # fmt: skip
    for record in records:
        call = heard[record.segment, record.index]
        assert call[2] == pytest.approx((record.done_ns - record.intended_ns) / 1e6)
        assert call[3] > 0
        assert call[4] == "None"
        assert call[5]["cell"] == record.cell
        assert 0 < call[5]["ttft_ms"] <= call[2]


def test_failures_past_the_limit_exit_1(tmp_path: Path) -> None:
    """One request in five fails, the limit is 1 %: exit code 1, all recorded."""
    with truth_server(fail_every=5) as truth:
        code, output, process = run_locust(tmp_path, truth.url)
    _, records = records_of(process.run_folder)
    assert code in (1, 5), output
    n_failed = sum(not record.outcome.is_ok and not record.is_warmup for record in records)
    assert f"56 of 56 requests recorded, {n_failed} failed" in output
    assert Counter(record.outcome for record in records)[Outcome.HTTP_ERROR] == 56 // 5
    assert "http_error 500" in output


def test_failures_within_the_limit_exit_0(tmp_path: Path) -> None:
    """The same failures under a limit of 50 % pass; the scenario is named by the environment."""
    values = {**scenario_values(), "limits": {"failed_share": 0.5}}
    with truth_server(fail_every=5) as truth:
        code, output, _ = run_locust(tmp_path, truth.url, values=values, by_environment=True)
    assert code in (0, 5), output
    assert "the limit is" not in output


def test_a_run_without_answers_exits_5(tmp_path: Path) -> None:
    """Everything is rejected: nothing was measured."""
    with truth_server(fail_every=1, fail_status=503) as truth:
        code, output, _ = run_locust(tmp_path, truth.url)
    assert code == 5, output


def misspelt() -> dict[str, Any]:
    return scenario_values(concurency=4)


REFUSALS: dict[str, tuple[dict[str, Any] | None, list[str], list[str]]] = {
    # name: scenario, options, words of the message
    "unknown key": (misspelt(), [], ["load.concurency", "try concurrency"]),
    "nobody listens": (None, ["--host", "http://127.0.0.1:9"], ["127.0.0.1:9", "refused"]),
    "no target": (None, [], ["--host"]),
}  # fmt: skip


@pytest.mark.parametrize(("values", "options", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_cannot_run_exits_2_and_says_why(
    tmp_path: Path, values: dict[str, Any] | None, options: list[str], words: list[str]
) -> None:
    """Input and setup errors: exit code 2, a message with the place, no traceback, nothing sent."""
    code, output, _ = run_locust(tmp_path, None, *options, values=values)
    assert code == 2, output
    assert all(word in output for word in words), output
    assert "Traceback" not in output


def start_slow_run(tmp_path: Path, truth: Truth) -> Locust:
    """A run that is in the middle of its plan, and far from its end."""
    values = scenario_values(concurrency=2, requests_per_cell=200)
    process = Locust(tmp_path, truth.url, "--headless", values=values)
    wait_for(lambda: len(truth.log()) >= 6)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
def test_a_stopped_run_loses_nothing_and_exits_5(tmp_path: Path, number: signal.Signals) -> None:
    """Stopped in the middle: every request the server saw is recorded, the run is partial."""
    with truth_server(ttft_ms=100) as truth:
        process = start_slow_run(tmp_path, truth)
        process.process.send_signal(number)
        code, output = process.to_end()
        log = truth.log()
    opened, records = records_of(process.run_folder)
    assert code == 5, output
    assert len(records) == len(log) < opened.plan.n_requests
    assert all(record.outcome.is_ok for record in records)
    assert opened.run.read_json("run.json")["status"] == "partial"
    assert opened.run.read_json("progress.json")["state"] == "aborted"


def test_a_second_interrupt_cancels_what_is_in_flight(tmp_path: Path) -> None:
    """Ctrl-C drains, again Ctrl-C cancels at once: each request's row has the tokens that came."""
    with truth_server(gap_ms=4_000) as truth:
        process = Locust(tmp_path, truth.url, "--headless", with_report=False)
        wait_for(lambda: len(truth.log()) == 4 and all(e["token_ns"] for e in truth.log()))
        process.process.send_signal(signal.SIGINT)
        process.says("waiting up to 10 s for 4 requests in flight")
        process.process.send_signal(signal.SIGINT)
        code, output = process.to_end()
    _, records = records_of(process.run_folder)
    assert code == 5, output
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 4
    # three gaps would have passed in the ten seconds that a single Ctrl-C waits
    assert all(1 <= len(record.token_ns) <= 3 for record in records)


def test_locusts_run_time_limit_ends_a_run_as_partial(tmp_path: Path) -> None:
    """-t 2: what was in flight is drained, the exit code says that the plan was not finished."""
    values = scenario_values(requests_per_cell=200)
    with truth_server(ttft_ms=200) as truth:
        code, output, process = run_locust(tmp_path, truth.url, "-t", "2", values=values)
        log = truth.log()
    opened, records = records_of(process.run_folder)
    assert code == 5, output
    assert 0 < len(records) == len(log) < opened.plan.n_requests


def test_a_killed_load_process_leaves_what_was_flushed(tmp_path: Path) -> None:
    """SIGKILL: rows older than about a second are readable."""
    with truth_server(ttft_ms=30) as truth:
        values = scenario_values(requests_per_cell=400)
        process = Locust(tmp_path, truth.url, "--headless", values=values)
        wait_for(lambda: len(truth.log()) >= 150)
        old_ns = time.monotonic_ns() - 2_500_000_000
        os.kill(process.process.pid, signal.SIGKILL)
        process.to_end()
        log = truth.log()
    _, records = records_of(process.run_folder)
    assert len(records) >= sum(0 < entry["done_ns"] < old_ns for entry in log)


def test_a_prepared_folder_runs_by_the_command_lines_way(tmp_path: Path) -> None:
    """`prepare` and `start_load`: the log and every record land in that folder."""
    with truth_server() as truth:
        values = scenario_values(mode="open", rate_rps=100.0, users=8)
        del values["load"]["concurrency"]
        run: RunFolder = session.prepare(validate_scenario(values, "t"), truth.url, tmp_path)
        with RunLock(run) as lock:
            process = runner.start_load(run, truth.url, lock)
        with pytest.raises(SetupError, match="still being written"):
            RunLock(run)  # the load process has inherited it
        assert process.wait(timeout=LIMIT_S) == 0, (run.path / "load.log").read_text()
    RunLock(run).release()
    opened, records = records_of(run.path)
    assert len(records) == opened.plan.n_requests
    assert "56 of 56 requests recorded" in (run.path / "load.log").read_text()


def page_of(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
            body: bytes = reply.read()
            return body
    except OSError:
        return b""


def done_of(run: Path) -> bool:
    progress = run / "progress.json"
    return progress.is_file() and '"done"' in progress.read_text()


def test_the_web_page_starts_and_a_run_started_there_completes(tmp_path: Path) -> None:
    """Without --headless the page is served; its start button runs the plan; stopping is clean."""
    port = free_port()
    with truth_server() as truth:
        process = Locust(
            tmp_path, truth.url, "--web-host", "127.0.0.1", "--web-port", str(port)
        )  # fmt: skip
        wait_for(lambda: b"Locust" in page_of(port))
        form = f"user_count=4&spawn_rate=4&host={truth.url}".encode()
        urllib.request.urlopen(f"http://127.0.0.1:{port}/swarm", form, timeout=10).close()
        wait_for(lambda: [done_of(run) for run in process.run_folders] == [True])
        process.process.send_signal(signal.SIGTERM)
        code, output = process.to_end()
    _, records = records_of(process.run_folder)
    assert len(records) == 56
    assert code in (0, 5), output
    assert f"report: runs/{process.run_folder.name}/report.html" in output


def test_the_plain_locustfile_runs_without_us(tmp_path: Path) -> None:
    """`infer.py` is Locust alone: it posts prompt and max_tokens with the acceleration header."""
    infer = ROOT / "locustfiles" / "infer.py"
    assert "harness" not in infer.read_text()
    command = [
        sys.executable, "-m", "locust", "-f", str(infer), "--headless", "-u", "2", "-r", "2",
        "-t", "2", "--only-summary",
    ]  # fmt: skip
    with truth_server() as truth:
        done = subprocess.run(
            [*command, "--host", truth.url], cwd=tmp_path, env=runner.load_environment(),
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        log = truth.log()
    assert done.returncode == 0, done.stderr
    assert log
    assert all(set(entry["body"]) == {"prompt", "max_tokens"} for entry in log)
    assert {entry["headers"]["x-mc-accel"] for entry in log} == {"true"}


def test_the_documented_locustfile_mixes_our_users_with_others(tmp_path: Path) -> None:
    """docs/load.md: four users work through the plan, two visitors run beside them by -u 6."""
    text = (ROOT / "docs" / "load.md").read_text()
    (mixed,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    file = tmp_path / "mixed.py"
    file.write_text(mixed)
    with truth_server(ttft_ms=20) as truth:
        code, output, process = run_locust(
            tmp_path, truth.url, "-u", "6", locustfile=file, with_report=False
        )
        log = truth.log()
    _, records = records_of(process.run_folder)
    assert code == 0, output
    assert len(records) == len(log) == 56
    assert re.search(r"GET +/v1/models +[1-9]", output), output
    assert '{"Reasoner": 4, "Visitor": 2} (6 total users)' in output
