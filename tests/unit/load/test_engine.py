"""The load engine without Locust: plain greenlets lent by the test."""

import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import gevent
import pytest

from harness.base.errors import ExitCode, RecordError, SetupError
from harness.load import session as sessions
from harness.load.client.adapter import Ask
from harness.load.solo import SoloRun
from harness.records.request import Outcome, RequestRecord
from harness.scenario.read import validate_scenario
from harness.server.truth.messages import digest
from tests.e2e.truth_process import Truth, records_of, scenario_values, true_entries, truth_server
from tests.unit.load.scripted_server import serving


class Run:
    """An engine, its users' greenlets, and what its users reported."""

    def __init__(self, url: str, folder: Path, values: dict[str, Any]) -> None:
        self._nice = os.nice(0)
        scenario = validate_scenario(values, "test")
        run = sessions.prepare(scenario, url, folder)
        self.path = run.path
        self.solo = SoloRun(sessions.reopen(run.path), url, self._report)
        self.reported: list[RequestRecord] = []
        users = [self.solo.enter() for _ in range(self.solo.n_users)]
        self.greenlets = [gevent.spawn(user.run) for user in users if user]

    def _report(self, record: RequestRecord, _n_bytes: int) -> None:
        self.reported.append(record)

    def to_end(self) -> "Run":
        """Run the whole plan."""
        self.solo.run()
        self.close()
        return self

    def close(self) -> None:
        """Close the run, require that every user has left, and give the priority back."""
        self.solo.close()
        os.setpriority(os.PRIO_PROCESS, 0, self._nice)
        gevent.joinall(self.greenlets, timeout=30)
        assert all(greenlet.ready() for greenlet in self.greenlets)

    def read(self, name: str) -> Any:
        """A JSON file of the run folder."""
        return json.loads((self.path / name).read_text())


def wait_for_requests(truth: Truth, n: int) -> None:
    """Until the server has got so many."""
    while len(truth.log()) < n:
        gevent.sleep(0.05)


def whole_run(truth: Truth, folder: Path, **load: Any) -> Run:
    return Run(truth.url, folder, scenario_values(**load)).to_end()


def test_every_planned_request_is_sent_recorded_and_reported_once(tmp_path: Path) -> None:
    """Closed loop: records, reports and the server's log all hold the plan, nothing else."""
    with truth_server() as truth:
        run = whole_run(truth, tmp_path)
        log = truth.log()
    session, records = records_of(run.path)
    planned = {(s.id, r.index) for s in session.plan.segments for r in s.requests}
    assert {(record.segment, record.index) for record in records} == planned
    assert len(records) == len(run.reported) == len(log) == len(planned) == 56
    assert run.solo.state.exit_code is ExitCode.PASS
    assert run.read("run.json")["status"] == "complete"


def test_prompts_have_the_exact_length_and_differ(tmp_path: Path) -> None:
    """The server counts what was asked for, and no prompt comes twice."""
    with truth_server() as truth:
        run = whole_run(truth, tmp_path)
        log = truth.log()
    session, records = records_of(run.path)
    assert {entry["n_prompt"] for entry in log} == {32, 64}
    assert len({entry["body"]["messages"][0]["content"] for entry in log}) == len(log)
    for record in records:
        assert record.n_prompt_tokens == session.plan.cell(record.cell).prompt_tokens
    assert run.read("client.json")["n_inexact_prompts"] == 0


def test_segments_do_not_overlap_and_concurrency_holds(tmp_path: Path) -> None:
    """By the server's own clock: a segment starts after the last answer of the one before."""
    with truth_server(ttft_ms=10) as truth:
        run = whole_run(truth, tmp_path)
        log = truth.log()
    session, records = records_of(run.path)
    pairs = true_entries(session, records, log)
    spans = []
    for segment in session.plan.segments:
        mine = [entry for record, entry in pairs if record.segment == segment.id]
        spans.append((min(e["arrival_ns"] for e in mine), max(e["done_ns"] for e in mine)))
        at_once = max(
            sum(e["arrival_ns"] <= t["arrival_ns"] < e["done_ns"] for e in mine) for t in mine
        )
        assert at_once == 4
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_stamps_agree_with_the_server(tmp_path: Path) -> None:
    """The first token is stamped after it was sent, and in the median within 2 ms of it."""
    with truth_server(ttft_ms=10, gap_ms=3) as truth:
        run = whole_run(truth, tmp_path)
        log = truth.log()
    pairs = true_entries(*records_of(run.path), log)
    errors = sorted((record.first_token_ns or 0) - entry["token_ns"][0] for record, entry in pairs)
    assert errors[0] > -1_000_000
    assert errors[len(errors) // 2] < 2_000_000


def test_open_loop_latency_counts_from_the_intended_send(tmp_path: Path) -> None:
    """The server freezes 0.5 s: requests that could not be sent then still carry the wait."""
    with truth_server(freeze_at=30, freeze_s=0.5) as truth:
        values = scenario_values(
            mode="open", rate_rps=100.0, arrivals="constant", users=4, warmup_requests=0,
            requests_per_cell=60, segments_per_cell=1,
        )  # fmt: skip
        del values["load"]["concurrency"]
        run = Run(truth.url, tmp_path, values).to_end()
    session, records = records_of(run.path)
    first = [record for record in records if record.segment == session.plan.segments[0].id]
    first.sort(key=lambda record: record.index)  # users freed at once may send in any order
    lags_s = [((r.sent_ns or 0) - r.intended_ns) / 1e9 for r in first]
    gaps_ms = {round((b.intended_ns - a.intended_ns) / 1e6) for a, b in pairwise(first)}
    assert gaps_ms == {10}  # the schedule stands whatever the server does
    assert max(lags_s) > 0.3  # sends waited for a user
    assert sum(lag > 0.1 for lag in lags_s) > 15
    assert run.read("client.json")["n_starved"] > 15
    assert run.read("client.json")["max_starvation_s"] > 0.3


def test_closed_loop_sends_are_meant_for_the_completion_before(tmp_path: Path) -> None:
    """With a think time of 30 ms each user's sends are 30 ms after its answers."""
    with truth_server() as truth:
        run = whole_run(truth, tmp_path, think_time_s=0.03, concurrency=1, warmup_requests=0)
    session, records = records_of(run.path)
    for segment in session.plan.segments:
        mine = [record for record in records if record.segment == segment.id]
        for before, after in pairwise(mine):
            assert after.intended_ns - (before.done_ns or 0) == 30_000_000
            assert (after.sent_ns or 0) >= after.intended_ns


def test_failures_are_records_and_decide_the_exit_code(tmp_path: Path) -> None:
    """A third of the requests fails: every one is recorded, the exit code is 1."""
    with truth_server(fail_every=3) as truth:
        run = whole_run(truth, tmp_path)
    _, records = records_of(run.path)
    outcomes = Counter(record.outcome for record in records)
    assert outcomes[Outcome.HTTP_ERROR] == 56 // 3
    assert outcomes[Outcome.OK_LENGTH] == 56 - 56 // 3
    assert {record.error for record in records if not record.outcome.is_ok} == {"HTTP 500: planted"}
    assert run.solo.state.exit_code is ExitCode.REQUESTS_FAILED


def test_a_run_without_a_single_answer_is_no_measurement(tmp_path: Path) -> None:
    """All rejected: exit code 5, the records are there."""
    with truth_server(fail_every=1, fail_status=503) as truth:
        run = whole_run(truth, tmp_path)
    _, records = records_of(run.path)
    assert {record.outcome for record in records} == {Outcome.REJECTED}
    assert run.solo.state.exit_code is ExitCode.UNDECIDED


def test_a_stop_drains_what_is_in_flight(tmp_path: Path) -> None:
    """Stopped in the middle: what was sent is recorded whole, and the run is partial."""
    with truth_server(ttft_ms=100) as truth:
        run = Run(truth.url, tmp_path, scenario_values(requests_per_cell=200))
        gevent.spawn(run.solo.run)
        wait_for_requests(truth, 6)
        run.solo.drain(30.0)
        run.close()
        log = truth.log()
    _, records = records_of(run.path)
    assert 6 <= len(records) == len(log) < 200
    assert {record.outcome for record in records} == {Outcome.OK_LENGTH}
    assert run.read("run.json")["status"] == "partial"
    assert run.solo.state.exit_code is ExitCode.UNDECIDED


def test_past_the_grace_requests_are_cancelled_and_recorded(tmp_path: Path) -> None:
    """Answers that would take 20 s: each of the four in flight leaves a `cancelled` record."""
    with truth_server(ttft_ms=20_000) as truth:
        run = Run(truth.url, tmp_path, scenario_values())
        gevent.spawn(run.solo.run)
        wait_for_requests(truth, 4)
        run.solo.drain(0.2)
        run.close()
    _, records = records_of(run.path)
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 4
    assert all(record.sent_ns for record in records)


def test_a_cancelled_request_keeps_what_had_come(tmp_path: Path) -> None:
    """Cancelled between two tokens: the row has the first one, its stamp and its time."""
    with truth_server(gap_ms=20_000) as truth:
        run = Run(truth.url, tmp_path, scenario_values())
        gevent.spawn(run.solo.run)
        while not all(entry["token_ns"] for entry in truth.log()) or len(truth.log()) < 4:
            gevent.sleep(0.05)
        run.solo.drain(0.1)
        run.close()
    _, records = records_of(run.path)
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 4
    assert [len(record.token_ns) for record in records] == [1] * 4
    assert all(record.first_token_ns and record.n_output_tokens == 1 for record in records)


def test_arrivals_that_a_stop_finds_overdue_are_counted(tmp_path: Path) -> None:
    """Two users hold two requests for ever, others are due: no row for those, but their number."""
    with truth_server(ttft_ms=20_000) as truth:
        values = scenario_values(
            mode="open", rate_rps=100.0, arrivals="constant", users=2, warmup_requests=0
        )
        del values["load"]["concurrency"]
        run = Run(truth.url, tmp_path, values)
        gevent.spawn(run.solo.run)
        wait_for_requests(truth, 2)
        gevent.sleep(0.2)  # ten arrivals are due within 0.1 s of the first
        run.solo.drain(0.1)
        run.close()
    _, records = records_of(run.path)
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 2
    assert run.read("client.json")["n_due_unsent"] == 10 - 2


def test_killed_users_leave_their_records(tmp_path: Path) -> None:
    """Locust kills a user's greenlet: its request in flight is recorded as cancelled."""
    with truth_server(ttft_ms=20_000) as truth:
        run = Run(truth.url, tmp_path, scenario_values())
        runner = gevent.spawn(run.solo.run)
        wait_for_requests(truth, 4)
        gevent.killall(run.greenlets)
        run.solo.drain(0.1)
        runner.join(timeout=30)
        run.close()
    _, records = records_of(run.path)
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 4


def test_a_server_that_dies_midway_gives_connect_errors_not_a_crash(tmp_path: Path) -> None:
    """The target goes away: the plan runs to its end on connect errors."""
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, scenario_values())
    run.to_end()
    _, records = records_of(run.path)
    assert {record.outcome for record in records} == {Outcome.CONNECT_ERROR}
    assert len(records) == 56


def test_a_store_that_fails_stops_the_run(tmp_path: Path) -> None:
    """Records that cannot be written end the run with the store's own error and exit code 2."""
    with truth_server(ttft_ms=20) as truth:
        run = Run(truth.url, tmp_path, scenario_values())
        run.solo.engine._writer._failure = "No space left on device"
        run.solo.run()
        with pytest.raises(RecordError):
            run.solo.engine._writer.append(RequestRecord(outcome=Outcome.OK, intended_ns=0))
        run.close()
    assert run.solo.state.exit_code is ExitCode.INPUT_OR_SETUP
    assert len(run.reported) < 56


def test_a_bug_of_ours_ends_the_run_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding raises: the run stops with exit code 2 instead of hanging, each send has its row."""

    def broken(*_args: Any, **_kwargs: Any) -> RequestRecord:
        raise ZeroDivisionError("planted")

    with truth_server(ttft_ms=20) as truth:
        run = Run(truth.url, tmp_path, scenario_values())
        monkeypatch.setattr("harness.load.client.openai.OpenAiChat.decode", broken)
        run.to_end()
        log = truth.log()
    _, records = records_of(run.path)
    assert len(records) == len(log) < 56
    assert all("planted" in (record.error or "") for record in records)
    assert run.solo.state.exit_code is ExitCode.INPUT_OR_SETUP


def test_progress_and_client_files_tell_the_end(tmp_path: Path) -> None:
    """`progress.json` ends with everything done, `client.json` with the process's own account."""
    with truth_server() as truth:
        run = whole_run(truth, tmp_path)
    progress, client = run.read("progress.json"), run.read("client.json")
    assert progress["state"] == "done"
    assert (progress["segments_done"], progress["segments"]) == (4, 4)
    assert progress["users"] == 0
    assert (progress["requests_done"], progress["requests"], progress["failed"]) == (56, 56, 0)
    assert 0 < progress["live"]["ttft_p50_s"] <= progress["live"]["ttft_p99_s"] < 1
    assert progress["factors"] == {"prompt_tokens": 64} or progress["factors"] == {
        "prompt_tokens": 32
    }
    assert set(client) >= {
        "cpu_share", "loop_lag_p99_s", "gc_pause_max_s", "clock_steps", "stamps", "n_starved",
    }  # fmt: skip
    assert 0 < client["cpu_share"] < 2


def test_without_tokenize_lengths_are_approximate_and_said_so(tmp_path: Path) -> None:
    """A target that cannot count: prompts are built, none is exact."""
    with truth_server(no_tokenize=True) as truth:
        run = whole_run(truth, tmp_path)
    client = run.read("client.json")
    assert client["prompts_counted"] is False
    assert client["n_inexact_prompts"] == 56


def test_an_absent_server_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """Nobody listens: the message names the address."""
    with serving(["close"]) as server:
        url = server.url
    with pytest.raises(SetupError, match=url):
        Run(url, tmp_path, scenario_values())


def test_something_else_on_the_port_is_refused(tmp_path: Path) -> None:
    """A server without models: what came, and what to do."""
    reply = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n"
    with (
        serving(["read", reply]) as server,
        pytest.raises(SetupError, match=r"/v1/models answered 404.*OpenAI-compatible"),
    ):
        Run(server.url, tmp_path, scenario_values())


def test_a_missing_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that the scenario names is not set."""
    monkeypatch.delenv("TRUTH_KEY", raising=False)
    values = scenario_values()
    values["target"]["api_key_env"] = "TRUTH_KEY"
    with pytest.raises(SetupError, match="TRUTH_KEY"):
        Run("http://127.0.0.1:9", tmp_path, values)


def test_the_key_is_sent_and_stored_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sees the bearer token; no file of the run folder holds it."""
    monkeypatch.setenv("TRUTH_KEY", "sk-very-secret")
    values = scenario_values()
    values["target"]["api_key_env"] = "TRUTH_KEY"
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, values).to_end()
        assert {e["headers"]["authorization"] for e in truth.log()} == {
            digest("Bearer sk-very-secret")
        }
    for path in run.path.rglob("*"):
        assert path.is_dir() or b"sk-very-secret" not in path.read_bytes()


def test_requests_are_worded_as_the_scenario_says(tmp_path: Path) -> None:
    """`target.api` and `target.omit` reach the requests that this run sends."""
    values = scenario_values(requests_per_cell=4, warmup_requests=0)
    values["target"] |= {"api": "llamacpp-chat", "omit": ["top_k"]}
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, values)
        adapter = run.solo.engine._wording.adapter
        run.to_end()
    sampling = {"top_k": 0, "repetition_penalty": 1.2}
    request = adapter.request(Ask(model="m", prompt="p", max_tokens=1, sampling=sampling))
    body = json.loads(request.body)
    assert body["repeat_penalty"] == 1.2
    assert "top_k" not in body
