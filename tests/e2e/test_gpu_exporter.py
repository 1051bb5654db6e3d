"""`tailbreak exporter` as a process: its options, and a real Prometheus upon eight fake GPUs."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.exposition import labels, read_samples
from tests.nvml.fake import TWO_RINGS, FakeClock, environment, gpu_exporter, needs_compiler
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus, promtool

pytestmark = [pytest.mark.e2e, needs_compiler]


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "harness.cli.main", "exporter", *options]


def run(*options: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*options), env=env, capture_output=True, text=True, timeout=60, check=False
    )


def scraped(address: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    request = urllib.request.Request(
        f"http://{address}/metrics", headers={"Accept": "application/openmetrics-text"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return read_samples(answer.read().decode())


def wait_for(address: str, key: tuple[str, frozenset[tuple[str, str]]], value: float) -> None:
    """Until a sample has this value."""
    for _ in range(200):
        if scraped(address).get(key) == value:
            return
        time.sleep(0.05)
    pytest.fail(f"{key} did not become {value}: {scraped(address).get(key)}")


def test_without_nvml_the_rest_goes_on() -> None:
    """No library: `gpu_exporter_up 0` with the reason, a message, host series, exit code 0."""
    ended = run("--once", "--interval", "0.25", "--pid", str(os.getpid()))
    assert ended.returncode == 0
    assert 'gpu_exporter_up{reason="library not found"} 0.0' in ended.stdout
    assert "library not found" in ended.stderr
    assert f'pid="{os.getpid()}"' in ended.stdout
    assert "mc_host_cores" in ended.stdout
    assert "mc_gpu_up" not in ended.stdout


def test_a_required_gpu_that_is_missing_ends_it() -> None:
    """`--require-gpu` is exit code 2 with the reason, and no trace."""
    ended = run("--once", "--require-gpu")
    assert ended.returncode == 2
    assert "library not found" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_required_gpu_that_nobody_may_see_ends_it() -> None:
    """NVML shows eight, `CUDA_VISIBLE_DEVICES` none: exit code 2, and the variable is told."""
    hidden = environment(TWO_RINGS) | {"CUDA_VISIBLE_DEVICES": "-1"}
    ended = run("--once", "--require-gpu", env=hidden)
    assert ended.returncode == 2
    assert "CUDA_VISIBLE_DEVICES=-1" in ended.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--interval", "0.05"), "100 ms"),
        (("--interval", "nan"), "--interval"),
        (("--pid", "4194303"), "--pid 4194303"),
    ],
)
def test_bad_options_are_told(options: tuple[str, ...], told: str) -> None:
    """What came, what is allowed and why; exit code 2."""
    ended = run("--once", *options)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_that_is_taken_is_told() -> None:
    """The option and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("--port", str(taken.getsockname()[1]))
    assert ended.returncode == 2
    assert "--port 0" in ended.stderr


def test_once_prints_eight_gpus_with_what_needs_two_samples() -> None:
    """`--once` waits for a second sample, so that GPM's shares are there."""
    ended = run("--once", "--interval", "0.25", "--require-gpu", env=environment(TWO_RINGS))
    assert ended.returncode == 0, ended.stderr
    assert sum(line.startswith("mc_gpu_up{") for line in ended.stdout.splitlines()) == 8
    assert (
        sum(line.startswith("mc_gpu_sm_active_ratio{") for line in ended.stdout.splitlines()) == 8
    )
    if shutil.which("promtool"):
        told = promtool("check", "metrics", text=ended.stdout)
        ours = [
            line
            for line in (told.stdout + told.stderr).splitlines()
            if not line.startswith("DCGM_")
        ]
        assert not ours


def verb(*options: str) -> "subprocess.CompletedProcess[str]":
    """A verb upon the two rings."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *options], env=environment(TWO_RINGS),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_batch_is_split_by_the_topology_that_was_written(tmp_path: Path) -> None:
    """`topology --json`, then `split --topology FILE`: the same as live, every sequence kept."""
    file, by_file, by_live = (tmp_path / f"{name}.json" for name in ("topology", "a", "b"))
    assert verb("topology", "--json", str(file)).returncode == 0
    told = verb("split", "--batch", "251", "--topology", str(file), "--json", str(by_file))
    assert told.returncode == 0, told.stderr
    verb("split", "--batch", "251", "--topology", "live", "--json", str(by_live))
    value = json.loads(by_file.read_text())
    assert value == json.loads(by_live.read_text())
    groups = value["links"]["groups"]
    assert [sorted(group["gpus"]) for group in groups] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sum(sum(group["pieces"]) for group in groups) == 251
    assert value["speed_up"] == value["even"]["total_s"] / value["links"]["total_s"] > 1
    assert f"{value['speed_up']:.2f} times" in told.stdout


def test_the_split_in_the_docs_is_what_is_printed() -> None:
    """Every line of the table in docs/telemetry.md."""
    file = TWO_RINGS.with_suffix(".json")
    ended = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "split", "--batch", "250", "--topology", file],
        env=os.environ | {"COLUMNS": "80"}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ended.stdout.strip() in Path("docs/telemetry.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--batch", "0"), "--batch"),
        (("--batch", "8", "--budget-us", "nan"), "--budget-us"),
        (("--batch", "8", "--topology", "none.json"), "none.json"),
        (("--batch", "8", "--json", "none/split.json"), "none"),
    ],
)
def test_a_bad_split_is_told(options: tuple[str, ...], told: str) -> None:
    """Which option, exit code 2, no trace."""
    ended = verb("split", *options)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_machine_without_gpus_has_no_topology() -> None:
    """The reason and exit code 2."""
    ended = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "topology"], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "library not found" in ended.stderr


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-0000-0000-0000-000000000000"


@needs_prometheus
def test_prometheus_finds_what_the_scenario_says(tmp_path: Path) -> None:
    """Growth over a reset, XIDs by code, a lost GPU: exact values by PromQL."""
    clock = FakeClock(path=tmp_path / "clock")
    clock.set(1)
    with (
        gpu_exporter(TWO_RINGS, "--interval", "0.1", clock=clock.path) as address,
        prometheus(tmp_path / "prometheus", {"gpu": address}) as server,
    ):
        server.wait_for('mc_gpu_up{gpu="7"}')
        for seconds in (2.0, 4.0, 4.75, 5.25, 6.25):
            clock.set(seconds)
            total = 1000 + 520 * seconds
            energy = labels(gpu="0", uuid=uuid(0))
            wait_for(address, ("mc_gpu_energy_joules_total", energy), total)
            server.wait_for(f'mc_gpu_energy_joules_total{{gpu="0"}} == {total!r}')
        _check(server)


def _check(server: Prometheus) -> None:
    link = 'mc_gpu_nvlink_bytes_total{gpu="%d",nvlink="0",direction="tx"}'
    # from 1 s: 3.75 s until the last sample before the reset, 1 s after the first one behind it
    assert server.value(f"max_over_time({link % 7}[5m]) - min_over_time({link % 7}[5m])") == (
        (3.75 + 1) * 2048000 * 1024
    )
    assert server.value(f"resets({link % 7}[5m])") == 0
    assert server.value(f"max_over_time({link % 0}[5m]) - min_over_time({link % 0}[5m])") == (
        5.25 * 2048000 * 1024
    )
    assert server.value('sum(mc_gpu_counter_resets_total{gpu="7"})') == 24 + 1
    xids = server.query("mc_gpu_xid_errors_total")
    assert {(x["metric"]["gpu"], x["metric"]["xid"], x["value"][1]) for x in xids} == {
        ("3", "79", "2"),
        ("3", "48", "1"),
    }
    assert server.value('mc_gpu_up{gpu="6"}') == 0
    assert server.value("sum(mc_gpu_up)") == 7
    assert not server.query('mc_gpu_utilisation_ratio{gpu="6"}')
    assert server.value('mc_gpu_dram_active_ratio{gpu="5"} > 0.92') == pytest.approx(0.95)
    assert server.value('DCGM_FI_DEV_XID_ERRORS{gpu="3"}') == 48
    assert server.value('mc_gpu_nvlink_up{gpu="1",nvlink="11"}') == 0
    down = server.query('mc_gpu_metric_supported{gpu="0"} == 0')
    assert not down
