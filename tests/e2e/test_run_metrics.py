"""The metrics of a run as Prometheus takes them, while it goes on and after its end."""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from harness.load.run_metrics import RunMetrics
from harness.load.runner import load_environment
from harness.records.request import RequestRecord
from harness.records.trace import trace_id
from tests.cli_process import command
from tests.e2e.locust_process import Locust, free_port, wait_for
from tests.e2e.truth_process import records_of, scenario_values, to_toml, truth_server
from tests.exposition import Samples, labels, read_samples
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus

pytestmark = pytest.mark.e2e
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}


def fetch(port: int) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=OPENMETRICS)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def labelled(**load: object) -> dict[str, object]:
    values = scenario_values(**load)
    values["target"] |= {"service": "chat", "version": "2"}
    return values


@needs_prometheus
def test_prometheus_ends_with_what_the_records_say(tmp_path: Path) -> None:
    """Counts, sums, buckets and exemplars of each cell are those of the run's own records."""
    port, began = free_port(), time.time()  # noqa: TID251  Prometheus keeps wall-clock time
    with (
        truth_server(ttft_ms=30) as truth,
        prometheus(tmp_path / "prometheus", {"load": f"127.0.0.1:{port}"}, scrape_s=1.0) as server,
        Locust(tmp_path, truth.url, "--headless", "--metrics-port", str(port),
               values=labelled(requests_per_cell=600)) as locust,
    ):  # fmt: skip
        server.wait_for("locust_user_count > 0", 60)
        assert server.value("mc_load_up") == 1
        server.wait_for("sum(mc_load_cell_running) == 1", 60)
        assert server.value('mc_process_up{process="load"}') == 1
        code, output = locust.to_end()
        assert code in (0, 5), output
        session, records = records_of(locust.run_folder)
        _require_same(server, [each for each in records if not each.is_warmup])
        assert server.value("last_over_time(mc_load_up[1m])") == 0
        assert server.value("last_over_time(locust_user_count[1m])") == 0
        named = server.get(
            "query_exemplars", query="mc_load_ttft_seconds_bucket", start=str(began - 1),
            end=str(began + 300),
        )  # fmt: skip
    assert f"metrics: http://127.0.0.1:{port}/metrics" in output
    ids = {trace_id(session.run.id, 1, each.segment, each.index) for each in records}
    found = {each["labels"]["trace_id"] for series in named for each in series["exemplars"]}
    assert found
    assert found <= ids


def _require_same(server: Prometheus, records: list[RequestRecord]) -> None:
    """Each cell's series at their end, against its rows."""
    n_of = Counter(each.cell for each in records)
    assert set(n_of) == {"c00", "c01"}
    for cell, n in n_of.items():
        where = f'{{service="chat",version="2",scenario="tiny",cell="{cell}",path=""}}'
        ttft_s = [
            ((each.first_token_ns or 0) - each.intended_ns) / 1e9
            for each in records
            if each.cell == cell
        ]
        below = sum(each <= 0.05 for each in ttft_s)

        def last(name: str, more: str = "", at: str = where) -> float:
            selector = at[:-1] + more + "}"
            return server.value(f"last_over_time({name}{selector}[1m])")

        assert last("mc_load_requests_total", ',outcome="ok_length"') == n
        assert last("mc_load_ttft_seconds_count") == n
        assert last("mc_load_ttft_seconds_sum") == pytest.approx(sum(ttft_s))
        assert last("mc_load_ttft_seconds_bucket", ',le="0.05"') == below
        assert last("mc_load_output_tokens_total") == 8 * n
        assert last("mc_load_failures_total") == 0


def test_a_killed_run_leaves_its_last_values(tmp_path: Path) -> None:
    """Killed and deleted in the middle: `mc_load_up` is 0, what was counted stays, then it ends."""
    port = free_port()
    values = scenario_values(concurrency=2, requests_per_cell=400, warmup_requests=0)
    with (
        truth_server(ttft_ms=20) as truth,
        Locust(tmp_path, truth.url, "--headless", "--metrics-port", str(port),
               values=values) as locust,
    ):  # fmt: skip
        wait_for(lambda: _n_requests(_scraped(port)) > 20)
        assert _scraped(port)["mc_load_up", labels(run=locust.run_folder.name)] == 1
        locust.signal_all(signal.SIGSTOP)  # its exporter, too, which is in its session
        locust.process.kill()
        run = locust.run_folder
        os.killpg(locust.process.pid, signal.SIGCONT)
        locust.process.wait()
        shutil.rmtree(run)
        first = _scraped(port)
        assert first["mc_load_up", labels(run=run.name)] == 0
        assert first["locust_user_count", labels()] == 0
        assert _n_requests(first) > 20
        wait_for(lambda: not _is_listening(port))


def _n_requests(found: Samples) -> float:
    return sum(n for (name, _), n in found.items() if name == "mc_load_requests_total")


def _scraped(port: int) -> Samples:
    try:
        return read_samples(fetch(port))
    except OSError:
        return {}


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@needs_prometheus
def test_tailbreak_run_serves_server_and_load_and_waits_for_the_last_scrape(
    tmp_path: Path,
) -> None:
    """Load, server with its engine, and exporter are watched; the last page has all requests."""
    values = scenario_values(requests_per_cell=40, warmup_requests=2)
    values["target"] = {"model": "tiny"}
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(to_toml(values))
    port = free_port()
    with subprocess.Popen(
        [*command("run", str(scenario)), "--runs-dir", str(tmp_path / "runs"), "--metrics-port",
         str(port)],
        cwd=tmp_path, env=load_environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        pages = []
        while process.poll() is None:
            if found := _scraped(port):
                pages.append(found)
            time.sleep(0.3)
        assert process.stdout is not None
        output = process.stdout.read()
    assert process.returncode in (0, 5), output
    names = {dict(where)["process"] for name, where in pages[-1] if name == "mc_process_up"}
    assert {"exporter", "load", "server", "server/1"} <= names
    assert _n_requests(pages[-1]) == 80
    assert max(page.get(("locust_user_count", labels()), 0) for page in pages) == 4
    growth = [page["mc_exporter_cpu_seconds_total", labels()] for page in pages]
    assert growth == sorted(growth)


def test_ctrl_c_waits_for_no_scrape(tmp_path: Path) -> None:
    """Scraped once, so that another is due in 15 s: reported as partial, and ended at once."""
    scenario, port = tmp_path / "tiny.toml", free_port()
    scenario.write_text(to_toml(scenario_values(requests_per_cell=5000)))
    with (
        truth_server(ttft_ms=20) as truth,
        subprocess.Popen(
            [*command("run", str(scenario)), "--target", truth.url, "--runs-dir",
             str(tmp_path / "runs"), "--metrics-port", str(port)],
            cwd=tmp_path, env=load_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process,
    ):  # fmt: skip
        wait_for(
            lambda: any(
                each.stat().st_size for each in tmp_path.glob("runs/*/shards/*.acknowledged")
            )
        )
        assert _scraped(port)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=90)
    assert process.returncode == 5, output
    assert "partial" in output
    assert "waiting for the last scrapes" not in output
    assert not _is_listening(port)


def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Exit code 2 with the option, the address and what is allowed; no run folder, no request."""
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(to_toml(scenario_values()))
    with socket.create_server(("127.0.0.1", 0)) as taken, truth_server() as truth:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*command("run", str(scenario)), "--target", truth.url, "--runs-dir",
             str(tmp_path / "runs"), "--metrics-port", port],
            cwd=tmp_path, env=load_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        with Locust(tmp_path, truth.url, "--headless", "--metrics-port", port) as locust:
            code, output = locust.to_end()
        assert truth.log() == []
    for text, exit_code in ((done.stderr, done.returncode), (output, code)):
        assert exit_code == 2
        assert f"--metrics-port {port}: 127.0.0.1:{port} cannot be listened at" in text
        assert "Traceback" not in text
    assert not (tmp_path / "runs").exists()


def test_no_port_no_exporter() -> None:
    """Without the option nothing listens and nothing is started."""
    with RunMetrics(None) as metrics:
        metrics.watch("load", os.getpid())
        assert metrics._process is None
        assert metrics._listener is None
