"""The table of exit codes, row by row, under `tailbreak run` and under `locust`.

A cell that the client's own lag voids may turn any verdict of a busy machine into 5: where a run
ends with 5 instead of its row, its report must say so.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.load import runner
from tests import cli_process
from tests.e2e.truth_process import Truth, scenario_values, to_toml, truth_server

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("tailbreak", "locust")
LIMIT_S = 120
MEDIAN = {"axis": "prompt_tokens", "q": 0.5, "min_jump": 2.0}
"""A quantile that few requests carry; the generator's own lag voids a cell only above one half."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that ended."""

    code: int
    text: str
    runs: Path

    @property
    def run(self) -> Path:
        """The one run folder that it made."""
        (path,) = self.runs.iterdir()
        return path

    @property
    def report(self) -> dict[str, Any]:
        """What it wrote for programs."""
        found: dict[str, Any] = json.loads((self.run / "report.json").read_text(encoding="utf-8"))
        return found


class Command:
    """One of the two commands, started on a scenario."""

    def __init__(
        self, name: str, folder: Path, url: str, *options: str, values: dict[str, Any]
    ) -> None:
        scenario = folder / "scenario.toml"
        scenario.write_text(to_toml(values), encoding="utf-8")
        self.runs = folder / "runs"
        ours = ["--runs-dir", str(self.runs), *options]
        command = {
            "tailbreak": ["harness.cli.main", "run", str(scenario), "--target", url, *ours],
            "locust": [
                "locust", "-f", str(ROOT / "locustfiles/grid.py"), "--headless", "--only-summary",
                "--scenario", str(scenario), "--host", url, *ours,
            ],
        }[name]  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={**runner.load_environment(), "COLUMNS": "300"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> Ended:
        """Wait for its end."""
        try:
            text, _ = self.process.communicate(timeout=LIMIT_S)
        finally:
            self.process.kill()
        return Ended(code=self.process.returncode, text=text, runs=self.runs)


def run(name: str, folder: Path, url: str, *options: str, values: dict[str, Any]) -> Ended:
    """A command from start to end."""
    return Command(name, folder, url, *options, values=values).end()


def report(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`tailbreak report` on a run."""
    return subprocess.run(
        cli_process.command("report", str(folder), *options),
        env=runner.load_environment(), capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip


def values(limits: dict[str, float] | None = None, **load: Any) -> dict[str, Any]:
    """A small scenario that asks for the median of TTFT in two cells.

    Four in flight, so that one pause of a busy machine is felt by few of a cell's requests. Two
    cells make no curve, so a limit far off is what a run is judged by: without one it is undecided.
    """
    return {
        **scenario_values(**{"requests_per_cell": 32, "concurrency": 4, **load}),
        "axes": {"prompt_tokens": [32, 64]},
        "analysis": MEDIAN,
        "limits": {"slo_ttft_s": 60.0, **(limits or {})},
    }


def assert_row(ended: Ended, code: int, *words: str) -> None:
    """The row's code and words; or 5 where the report says that the client voided cells.

    Here or in the baseline, whose void cells are among its caveats.
    """
    assert "Traceback" not in ended.text
    if ended.code == 5 != code and "invalid-client" in json.dumps(ended.report):
        return
    assert ended.code == code, ended.text
    assert all(word in ended.text for word in words), ended.text
    assert str(ended.run.name) in ended.text.rpartition("report: ")[2]


@pytest.fixture(scope="module")
def fast() -> Iterator[Truth]:
    """A server that answers after 40 ms."""
    with truth_server(ttft_ms=40, gap_ms=1) as truth:
        yield truth


@pytest.fixture(scope="module")
def slow() -> Iterator[Truth]:
    """A server that takes ten times as long."""
    with truth_server(ttft_ms=400, gap_ms=1) as truth:
        yield truth


@pytest.fixture(scope="module")
def failing() -> Iterator[Truth]:
    """A server that fails every fourth request."""
    with truth_server(ttft_ms=20, gap_ms=1, fail_every=4) as truth:
        yield truth


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory, fast: Truth) -> str:
    """A run of the fast server: also row 0 of `tailbreak run`.

    Made again where a busy machine voided a cell: all that compare with it would be undecided.
    """

    def made() -> Ended:
        folder = tmp_path_factory.mktemp("baseline")
        ended = run("tailbreak", folder, fast.url, values=values())
        assert_row(ended, 0, "pass")
        return ended

    tries = (made() for _ in range(3))
    good = (each for each in tries if {c["state"] for c in each.report["cells"]} == {"fixed"})
    first = next(good, None)
    if first is None:
        pytest.skip("too busy a machine: the baseline had void cells three times")
    return str(first.run)


@pytest.mark.parametrize("name", COMMANDS)
def test_0_pass(name: str, tmp_path: Path, fast: Truth, baseline: str) -> None:
    """Nothing speaks against the run, and it is not 20 times as slow as its like: exit 0."""
    ended = run(
        name, tmp_path, fast.url, "--baseline", baseline, values=values({"regression": 20.0})
    )
    assert_row(ended, 0, "is not slower than in run")
    assert ended.report["baseline"]["reference"] == Path(baseline).name


@pytest.mark.parametrize("name", COMMANDS)
def test_1_requests_failed(name: str, tmp_path: Path, failing: Truth) -> None:
    """One request in four failed, one in a hundred may: exit 1."""
    assert_row(run(name, tmp_path, failing.url, values=values()), 1, "requests failed", "limit")


@pytest.mark.parametrize("name", COMMANDS)
def test_2_input(name: str, tmp_path: Path) -> None:
    """A misspelt key: exit 2 with its place, no run folder."""
    ended = run(name, tmp_path, "http://127.0.0.1:9", values=values(concurency=4))
    assert ended.code == 2, ended.text
    assert "load.concurency" in ended.text
    assert "Traceback" not in ended.text
    assert not ended.runs.exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_2_unreachable(name: str, tmp_path: Path) -> None:
    """Nobody listens: exit 2 with the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ended = run(name, tmp_path, url, values=values())
    assert ended.code == 2, ended.text
    assert url.removeprefix("http://") in ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize("name", COMMANDS)
def test_2_no_baseline(name: str, tmp_path: Path, fast: Truth, baseline: str) -> None:
    """The baseline was measured with another load: exit 2 before anything is sent."""
    n_before = len(fast.log())
    ended = run(name, tmp_path, fast.url, "--baseline", baseline, values=values(concurrency=3))
    assert ended.code == 2, ended.text
    assert "load.concurrency: 4 in the baseline, 3 here" in ended.text
    assert len(fast.log()) == n_before
    assert not ended.runs.exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_2_port_taken(name: str, tmp_path: Path, fast: Truth) -> None:
    """The port to serve on is taken (the bundled server's, Locust's page): exit 2 with the port."""
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(to_toml(values()), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = {
            "tailbreak": ["harness.cli.main", "serve", "--port", port],
            "locust": [
                "locust", "-f", str(ROOT / "locustfiles/grid.py"), "--scenario", str(scenario),
                "--host", fast.url, "--web-host", "127.0.0.1", "--web-port", port,
            ],
        }[name]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=runner.load_environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert port in done.stderr
    assert "--port" in done.stderr or "--web-port" in done.stderr
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_3_slo_missed(name: str, tmp_path: Path, fast: Truth) -> None:
    """TTFT P99 is above 1 ms everywhere: exit 3 with limit and metric."""
    ended = run(name, tmp_path, fast.url, values=values({"slo_ttft_s": 0.001}))
    assert_row(ended, 3, "The SLO of 1 ms on TTFT P99 is missed in")


@pytest.mark.parametrize("name", COMMANDS)
def test_4_regression_before_a_missed_slo(
    name: str, tmp_path: Path, slow: Truth, baseline: str
) -> None:
    """Ten times as slow as the baseline, and an SLO missed as well: exit 4, both are said."""
    limits = {"slo_ttft_s": 0.001}
    ended = run(name, tmp_path, slow.url, "--baseline", baseline, values=values(limits))
    assert_row(ended, 4, "is slower than in run", "in 2 of 2 cells", "is missed in")
    found = ended.report["baseline"]
    assert found["reference"] == Path(baseline).name
    assert all(1.1 < row["low"] < row["ratio"] < row["high"] for row in found["metrics"])
    assert "Beside the earlier run" in (ended.run / "report.html").read_text(encoding="utf-8")
    assert "Against run" in (ended.run / "summary.md").read_text(encoding="utf-8")


def test_a_report_made_again_compares_again(tmp_path: Path, slow: Truth, baseline: str) -> None:
    """`tailbreak report` needs no option to repeat the comparison; --baseline makes another."""
    ended = run("locust", tmp_path, slow.url, "--baseline", baseline, values=values())
    before = (ended.run / "report.json").read_bytes()
    again = report(ended.run)
    assert again.returncode == ended.code, again.stderr
    assert (ended.run / "report.json").read_bytes() == before
    itself = report(ended.run, "--baseline", str(ended.run))
    assert itself.returncode == 2
    assert "cannot be its own baseline" in itself.stderr
    no_run = report(ended.run, "--baseline", str(tmp_path))
    assert no_run.returncode == 2
    assert "no run here" in no_run.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_5_zero_completed_before_failed_requests(name: str, tmp_path: Path) -> None:
    """Every request is refused: no evidence, exit 5 and not 1."""
    with truth_server(fail_every=1, fail_status=503) as truth:
        ended = run(name, tmp_path, truth.url, values=values())
    assert_row(ended, 5, "No request completed", "rejected")


@pytest.mark.parametrize("name", COMMANDS)
def test_5_stopped_early(name: str, tmp_path: Path, slow: Truth) -> None:
    """SIGTERM in the middle: exit 5, what was measured is reported as partial."""
    n_before = len(slow.log())
    command = Command(name, tmp_path, slow.url, values=values(requests_per_cell=400))
    until = time.monotonic() + LIMIT_S
    while len(slow.log()) < n_before + 8:
        assert command.process.poll() is None, command.end().text
        assert time.monotonic() < until, "no request came"
        time.sleep(0.05)
    os.kill(command.process.pid, signal.SIGTERM)
    ended = command.end()
    assert_row(ended, 5, "The run is partial")
    assert ended.report["run"]["status"] == "partial"


@pytest.mark.parametrize("name", COMMANDS)
def test_5_invalid_client(name: str, tmp_path: Path, fast: Truth) -> None:
    """One user for 200 requests per second at 40 ms each: the client is late, exit 5."""
    late = values(mode="open", rate_rps=200.0, users=1, requests_per_cell=12)
    del late["load"]["concurrency"]
    ended = run(name, tmp_path, fast.url, values={**late, "analysis": {"axis": "prompt_tokens"}})
    assert_row(ended, 5, "No cell can support a finding", "the load generator's own lag")
