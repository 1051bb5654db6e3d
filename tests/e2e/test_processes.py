"""One run over several load processes: Locust's --processes, --master and --worker."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.load import runner
from tests.e2e.locust_process import GRID, LIMIT_S, Locust, free_port, wait_for
from tests.e2e.truth_process import (
    Truth,
    records_of,
    scenario_values,
    to_toml,
    true_entries,
    truth_server,
)

pytestmark = pytest.mark.e2e
CLOSED = scenario_values(concurrency=3)
LONG = scenario_values(concurrency=3, requests_per_cell=200)
"""Never over before a busy machine gets round to what ends it."""
OPEN = scenario_values(mode="open", rate_rps=60.0, users=6, warmup_requests=0)
del OPEN["load"]["concurrency"]


def start(
    folder: Path,
    truth: Truth,
    *options: str,
    values: dict[str, Any] | None = None,
    locustfile: Path = GRID,
) -> Locust:
    port = str(free_port())
    return Locust(
        folder, truth.url, "--headless", "--master-bind-port", port, "--master-port", port,
        *options, values=values, with_report=False, locustfile=locustfile,
    )  # fmt: skip


def client_of(process: Locust) -> Any:
    return json.loads((process.run_folder / "client.json").read_text())


@pytest.mark.parametrize("values", [CLOSED, OPEN], ids=["closed", "open"])
def test_two_processes_send_the_plan_once_and_segments_never_overlap(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    """Each request once, by both processes; by the server's clock no segment overlaps another."""
    with truth_server(ttft_ms=10) as truth:
        process = start(tmp_path, truth, "--processes", "2", values=values)
        code, output = process.to_end()
        log = truth.log()
    session, records = records_of(process.run_folder)
    assert code == 0, output
    planned = [(s.id, r.index) for s in session.plan.segments for r in s.requests]
    assert sorted((r.segment, r.index) for r in records) == sorted(planned)
    assert len(log) == len(planned)
    assert set(Counter(record.worker for record in records)) == {0, 1}
    assert re.search(rf"Aggregated +{len(log)} ", output), output  # Locust's own table
    spans = []
    for segment in session.plan.segments:
        mine = [e for r, e in true_entries(session, records, log) if r.segment == segment.id]
        spans.append((min(e["arrival_ns"] for e in mine), max(e["done_ns"] for e in mine)))
    assert all(end < begin for (_, end), (begin, _) in pairwise(spans))
    if values is OPEN:
        assert_one_schedule(session, records)
    assert [worker["n_users"] for worker in client_of(process)["workers"]] in ([2, 1], [3, 3])


SLOW_START = """
import gevent
from locust.runners import WorkerRunner
from harness.load.users import GridUser

connect = WorkerRunner.connect_to_master

def connect_slowly(runner):
    connect(runner)
    gevent.sleep(1.5)

WorkerRunner.connect_to_master = connect_slowly
"""


def test_a_worker_that_is_told_to_spawn_before_it_is_ready_takes_part(tmp_path: Path) -> None:
    """The master's word can overtake a busy worker's own start: it waits, and nothing is lost."""
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW_START)
    with truth_server(ttft_ms=10) as truth:
        process = start(tmp_path, truth, "--processes", "2", locustfile=slow)
        code, output = process.to_end()
    session, records = records_of(process.run_folder)
    assert code == 0, output
    assert len(records) == session.plan.n_requests
    assert set(Counter(record.worker for record in records)) == {0, 1}


def assert_one_schedule(session: Any, records: list[Any]) -> None:
    """All requests of a segment count from one start, whichever process sent them."""
    offsets = {
        (s.id, request.index): request.offset_ns
        for s in session.plan.segments
        for request in s.requests
    }
    starts = {(r.segment, r.intended_ns - offsets[r.segment, r.index]) for r in records}
    assert len(starts) == len(session.plan.segments)


def test_tailbreak_run_with_two_processes_writes_one_report(tmp_path: Path) -> None:
    """`tailbreak run --processes 2`: one run, one report, rows of both processes."""
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(to_toml(scenario_values()))
    command = [
        sys.executable, "-m", "harness.cli.main", "run", str(scenario), "--processes", "2",
        "--runs-dir", str(tmp_path / "runs"),
    ]  # fmt: skip
    with truth_server(ttft_ms=10) as truth:
        try:
            done = subprocess.run(
                [*command, "--target", truth.url], env=runner.load_environment(),
                capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            logs = [path.read_text() for path in tmp_path.glob("runs/*/load.log")]
            pytest.fail(f"it did not end: {error.stderr!r}\n{logs}")
    assert done.returncode in (0, 5), done.stdout + done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    _, records = records_of(run)
    assert (run / "report.html").is_file()
    assert set(Counter(record.worker for record in records)) == {0, 1}
    assert len(records) == 56


def start_slow(folder: Path, truth: Truth) -> Locust:
    """A run of two processes in the middle of its plan (one per core asked for, at least two)."""
    n_processes = "-1" if os.cpu_count() == 2 else "2"
    process = start(folder, truth, "--processes", n_processes, values=LONG)
    wait_for(lambda: len(truth.log()) >= 6)
    return process


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGKILL, "died"), (signal.SIGSTOP, "gives no sign of life")]
)
def test_a_lost_process_is_named_and_the_run_is_partial(
    tmp_path: Path, number: signal.Signals, words: str
) -> None:
    """One of two dies, or both hang: exit code 5 with their names, what was written is read."""
    with truth_server(ttft_ms=150) as truth:
        process = start_slow(tmp_path, truth)
        lost = process.workers[:1] if number == signal.SIGKILL else process.workers
        for pid in lost:
            os.kill(pid, number)
        code, output = process.to_end()
        log = truth.log()
    session, records = records_of(process.run_folder)
    assert code == 5, output
    for pid in lost:
        assert f"(process {pid}) {words} during segment" in output
        assert not Path(f"/proc/{pid}").exists()  # not even hanging
    assert session.run.read_json("run.json")["status"] == "partial"
    assert len(client_of(process)["lost_workers"]) == len(lost)
    assert len(records) <= len(log) < session.plan.n_requests
    assert len({(record.segment, record.index) for record in records}) == len(records)


def test_workers_of_a_killed_master_write_what_they_have_and_leave(tmp_path: Path) -> None:
    """SIGKILL to the master: the workers drain, every request has its row, no process is left."""
    with truth_server(ttft_ms=150) as truth:
        process = start_slow(tmp_path, truth)
        workers = process.workers
        process.process.kill()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        process.to_end()
        log = truth.log()
    session, records = records_of(process.run_folder)
    assert len(records) == len(log) < session.plan.n_requests
    assert all(record.outcome.is_ok for record in records)


@pytest.mark.parametrize("is_for_all", [True, False], ids=["interrupt all", "terminate master"])
def test_a_stop_drains_every_process(
    tmp_path: Path,
    is_for_all: bool,  # noqa: FBT001
) -> None:
    """Ctrl-C in the terminal, or SIGTERM to the master alone: each request has its whole row."""
    with truth_server(ttft_ms=150) as truth:
        process = start_slow(tmp_path, truth)
        if is_for_all:
            process.signal_all(signal.SIGINT)
        else:
            process.process.terminate()
        code, output = process.to_end()
        log = truth.log()
    session, records = records_of(process.run_folder)
    assert code == 5, output
    assert len(records) == len(log) < session.plan.n_requests
    assert all(record.outcome.is_ok for record in records)
    assert client_of(process)["lost_workers"] == []


def start_worker(folder: Path, port: str) -> "subprocess.Popen[bytes]":
    """A worker started by hand: it needs no options of ours."""
    return subprocess.Popen(
        [sys.executable, "-m", "locust", "-f", str(GRID), "--worker", "--master-port", port],
        cwd=folder, env=runner.load_environment(), stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_processes_started_by_hand_make_a_run_and_those_without_users_idle(tmp_path: Path) -> None:
    """One master, two workers, one user: all is sent by one worker, the other does no harm."""
    port = str(free_port())
    values = scenario_values(concurrency=1, requests_per_cell=4, warmup_requests=0)
    with truth_server() as truth:
        process = Locust(
            tmp_path, truth.url, "--headless", "--master", "--expect-workers", "2",
            "--master-bind-port", port, values=values, with_report=False,
        )  # fmt: skip
        with start_worker(tmp_path, port) as one, start_worker(tmp_path, port) as two:
            code, output = process.to_end()
            assert [one.wait(timeout=LIMIT_S), two.wait(timeout=LIMIT_S)] == [0, 0]
    _, records = records_of(process.run_folder)
    assert code == 0, output
    assert Counter(record.worker for record in records) == {0: 8}


def test_a_worker_that_cannot_prepare_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    """A worker started by hand lacks the key the scenario names: exit code 2 and which."""
    port = str(free_port())
    values = scenario_values()
    values["target"]["api_key_env"] = "TRUTH_KEY"
    os.environ["TRUTH_KEY"] = "sk-very-secret"
    with truth_server() as truth:
        process = Locust(
            tmp_path, truth.url, "--headless", "--master", "--master-bind-port", port,
            with_report=False, values=values,
        )  # fmt: skip
        del os.environ["TRUTH_KEY"]
        with start_worker(tmp_path, port):
            code, output = process.to_end()
    assert code == 2, output
    assert "worker 0" in output
    assert "TRUTH_KEY, which is not set" in output
    assert "sk-very-secret" not in output


def test_a_master_whose_only_worker_goes_silent_before_the_run_ends(tmp_path: Path) -> None:
    """Locust stops the test by itself; a headless master then ends, and measured nothing."""
    port = str(free_port())
    with truth_server() as truth:
        process = Locust(
            tmp_path, truth.url, "--headless", "--master", "--master-bind-port", port,
            with_report=False,
        )  # fmt: skip
        with start_worker(tmp_path, port) as worker:
            process.says("reported as ready")
            worker.send_signal(signal.SIGSTOP)
            try:
                code, output = process.to_end()
            finally:
                worker.kill()
    assert code == 5, output
