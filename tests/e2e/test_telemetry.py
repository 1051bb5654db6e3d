"""Scraping during real runs, and a fault of the bundled server caught in the act."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.metrics.window import Telemetry
from harness.records.run import RunFolder
from harness.records.telemetry import read_telemetry
from harness.server.options import ServerOptions
from harness.server.process import start_server
from tests.cli_process import command
from tests.e2e.truth_process import truth_server
from tests.metrics_page import metrics_page

pytestmark = pytest.mark.e2e

SCENARIO = """
schema = 1
name = "tiny"
title = "Tiny"
seed = 1

[load]
concurrency = 4
requests_per_cell = {n}
segments_per_cell = 1
warmup_requests = 2

[output]
tokens = 16

[axes]
prompt_tokens = [32, 64]
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path.cwd())}


def run(folder: Path, *arguments: str, n: int = 150) -> "subprocess.Popen[str]":
    (folder / "x.toml").write_text(SCENARIO.format(n=n))
    return subprocess.Popen(
        command("run", "x.toml", *arguments), cwd=folder, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run_folder(folder: Path) -> Path:
    (found,) = folder.glob("reports/runs/*")
    return found


def telemetry(folder: Path) -> Telemetry:
    frame = read_telemetry(RunFolder(run_folder(folder)))
    assert frame is not None
    return Telemetry(frame)


def report(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run_folder(folder) / "report.json").read_text())
    return value


def test_the_servers_own_totals_are_those_of_the_run(tmp_path: Path) -> None:
    """Every request and token of the run was counted by the server between two scrapes."""
    process = run(tmp_path, n=60)
    said, _ = process.communicate(timeout=180)
    assert process.returncode in (0, 5), said
    found, told = telemetry(tmp_path), report(tmp_path)
    window = found.of_source("target").window()
    n_sent = 2 * (60 + 2)
    assert window.increase("llm:requests_total") == n_sent
    assert window.increase("llm:ttft_seconds_count") == n_sent
    assert window.increase("llm:output_tokens_total") == 16 * n_sent
    assert told["telemetry"]["engine"] == "tailbreak"
    assert [cell["cell"] for cell in told["telemetry"]["cells"]] == ["c00", "c01"]
    assert not [text for text in told["caveats"] if text.startswith("metrics of")]
    assert not list(run_folder(tmp_path).glob("*.arrows"))


def test_a_target_without_metrics_is_one_caveat(tmp_path: Path) -> None:
    """The run is what it was without; the truth server has no /metrics."""
    with truth_server(ttft_ms=5) as truth:
        process = run(tmp_path, "--target", truth.url, n=40)
        said, _ = process.communicate(timeout=180)
    assert process.returncode in (0, 5), said
    told = report(tmp_path)
    assert told["telemetry"] is None
    (caveat,) = [text for text in told["caveats"] if text.startswith("metrics of")]
    assert "metrics of target: none (" in caveat


def test_a_source_that_dies_is_a_caveat_with_its_time(tmp_path: Path) -> None:
    """The run goes on and loses nothing; what the source said before is kept."""
    with truth_server(ttft_ms=20) as truth, metrics_page("mc_gpu_power_watts 300\n") as page:
        process = run(tmp_path, "--target", truth.url, "--scrape", page.url, n=250)
        began = time.monotonic()
        while len(page.paths) < 4 and time.monotonic() - began < 60:
            time.sleep(0.02)
        page.status = 503
        said, _ = process.communicate(timeout=180)
    assert process.returncode in (0, 5), said
    told = report(tmp_path)
    assert sum(cell["n"] for cell in told["cells"]) == 500
    name = page.url.removeprefix("http://")
    (caveat,) = [text for text in told["caveats"] if text.startswith(f"metrics of {name}")]
    assert "away from " in caveat
    assert "HTTP status 503" in caveat
    assert telemetry(tmp_path).of_source(name).window().mean("mc_gpu_power_watts") == 300


def test_a_source_that_never_was_is_told_before_the_run(tmp_path: Path) -> None:
    """A mistyped address costs a second and not a run."""
    process = run(tmp_path, "--scrape", "http://127.0.0.1:9/metrics")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--scrape: http://127.0.0.1:9/metrics" in said
    assert not (tmp_path / "reports").exists()


def test_a_killed_run_keeps_its_telemetry_and_resumes_it(tmp_path: Path) -> None:
    """`kill -9`: what was scraped until then is readable; the next session adds to it."""
    with truth_server(ttft_ms=20) as truth, metrics_page("mc_gpu_power_watts 300\n") as page:
        process = run(tmp_path, "--target", truth.url, "--scrape", page.url, n=800)
        began = time.monotonic()
        while len(page.paths) < 5 and time.monotonic() - began < 60:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        name = page.url.removeprefix("http://")
        kept = telemetry(tmp_path).of_source(name).up(name)
        assert len(kept) >= 3
        code, said = resumed(tmp_path, "--scrape", page.url)
    assert code in (0, 5), said
    both = telemetry(tmp_path).of_source(name).up(name)
    assert both[: len(kept)] == kept
    assert len(both) > len(kept)


def resumed(folder: Path, *more: str) -> tuple[int, str]:
    """Go on with the run, as soon as its load has noticed that it is alone."""
    while True:
        done = subprocess.run(
            command("run", "--resume", str(run_folder(folder)), *more), cwd=folder, env=ENVIRONMENT,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        if "still being written" not in done.stderr:
            return done.returncode, done.stderr
        time.sleep(0.5)


@contextmanager
def requests(url: str, n_clients: int = 2) -> Iterator[None]:
    """A steady light load, as long as the block."""
    over = threading.Event()

    def ask() -> None:
        body = json.dumps(
            {"model": "tiny", "prompt": "one two three", "max_tokens": 4, "temperature": 0}
        ).encode()
        while not over.wait(0.1):
            request = urllib.request.Request(
                f"{url}/v1/completions", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
def test_a_planted_fault_is_caught_in_the_act(tmp_path: Path) -> None:
    """All connections to the store are taken for seven seconds: rows wait, and it is kept."""
    options = ServerOptions(port=0, threads=1, faults="connections:7s@24s")
    with start_server(options) as server, requests(server.url):
        watching = subprocess.run(
            [
                sys.executable, "-m", "harness.cli.main", "capture", "--url", server.url,
                "--metric", "mc_accel_store_waiting_rows", "--pid", str(server.pid),
                "--seconds", "26", "--out", str(tmp_path),
            ],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert watching.returncode == 0, watching.stderr
    assert "1 snapshots" in watching.stdout, watching.stdout
    (folder,) = tmp_path.iterdir()
    told = json.loads((folder / "trigger.json").read_text())
    assert told["baseline"] == 0
    assert min(told["samples"]) >= 1
    assert f"Pid:\t{server.pid}" in (folder / "process.txt").read_text()
    assert "mc_accel_store_connections_in_use 32.0" in (folder / "metrics.txt").read_text()
    assert "mc_accel_store_waiting_rows 0.0" in (folder / "metrics-before.txt").read_text()
    assert "mc_accel_gc_pause_seconds_count" in (folder / "garbage.txt").read_text()
