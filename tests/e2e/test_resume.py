"""Going on with a run that was killed or stopped, as its users do it."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.base.errors import SetupError
from harness.load import session as sessions
from harness.records.lock import RunLock
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.scenario.read import validate_scenario
from tests.e2e.locust_process import wait_for
from tests.e2e.truth_process import scenario_values, to_toml, truth_server

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120
DEAD = "http://127.0.0.1:9"
TAILBREAK = ("-m", "harness.cli.main")
LOCUST = ("-m", "locust", "-f", str(ROOT / "locustfiles" / "grid.py"), "--headless")


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A command as a user starts it, in its folder."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "250"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def done(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code and what it said."""
    output, _ = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in output
    return process.returncode, output


def prepared(folder: Path, **values: Any) -> RunFolder:
    """A run that was begun and never sent anything."""
    scenario = validate_scenario({**scenario_values(), **values}, "test")
    return sessions.prepare(scenario, DEAD, folder)


def counts(run: Path) -> Counter[tuple[str, int]]:
    """How many rows each planned request has."""
    rows = read_rows(RunFolder(run)).table.select(["segment", "index"]).to_pylist()
    return Counter((row["segment"], row["index"]) for row in rows if row["index"] >= 0)


def test_a_locust_run_killed_midway_is_finished_by_locust_on_its_own_target(tmp_path: Path) -> None:
    """`--resume RUN` alone: while it lives it is refused; then exactly the rest is sent."""
    (tmp_path / "x.toml").write_text(to_toml(scenario_values(requests_per_cell=60)))
    with truth_server(ttft_ms=150) as truth:
        first = start(tmp_path, *LOCUST, "--scenario", "x.toml", "--host", truth.url)
        wait_for(lambda: len(truth.log()) >= 20, LIMIT_S)
        (run,) = tmp_path.glob("reports/runs/*")
        with pytest.raises(SetupError, match=f"still being written .process {first.pid}."):
            RunLock(RunFolder(run))
        first.kill()
        done(first)
        with RunLock(RunFolder(run)):
            code, said = done(start(tmp_path, *LOCUST, "--resume", str(run)))
        assert (code, "still being written" in said) == (2, True), said
        code, said = done(start(tmp_path, *LOCUST, "--resume", str(run)))
        assert code in (0, 5), said
        assert "it was made in 2 sessions" in said
        assert RunFolder(run).read_json("run.json")["status"] == "complete"
        assert len(counts(run)) == 136
        assert set(counts(run).values()) == {1}
        code, said = done(start(tmp_path, *LOCUST, "--resume", str(run)))
        assert (code, "nothing to resume" in said) == (0, True), said


def test_a_stopped_run_is_finished_by_the_command_line(tmp_path: Path) -> None:
    """Ctrl-C: exit 5 and the command that goes on; that one makes the run whole."""
    (tmp_path / "x.toml").write_text(to_toml(scenario_values(concurrency=2)))
    with truth_server(ttft_ms=150) as truth:
        process = start(tmp_path, *TAILBREAK, "run", "x.toml", "--target", truth.url)
        wait_for(lambda: len(truth.log()) >= 8, LIMIT_S)
        process.send_signal(signal.SIGINT)
        code, said = done(process)
        (run,) = tmp_path.glob("reports/runs/*")
        assert code == 5, said
        assert f"tailbreak run --resume {run.relative_to(tmp_path)}" in said
        code, said = done(start(tmp_path, *TAILBREAK, "run", "--resume", str(run)))
        assert code in (0, 5), said
        report = json.loads((run / "report.json").read_text())
        assert report["run"]["status"] in ("complete", "void")  # void: the machine was too busy
        assert report["run"]["n_requests"] == 56
        assert all(set(cell["outcomes"]) == {"ok_length"} for cell in report["cells"])
        code, said = done(start(tmp_path, *TAILBREAK, "run", "--resume", str(run)))
        assert (code, "nothing to resume" in said) == (0, True), said


def test_a_run_on_the_bundled_server_gets_the_same_server_again(tmp_path: Path) -> None:
    """Killed before its first request: the server comes up with the run's own options."""
    values = scenario_values(requests_per_cell=6, segments_per_cell=1)
    values["target"] = {"model": "tiny", "server": {"kv_tokens": 2048, "max_num_seqs": 3}}
    run = sessions.prepare(validate_scenario(values, "test"), DEAD, tmp_path, is_bundled=True)
    process = start(tmp_path, *TAILBREAK, "run", "--resume", str(run.path))
    options: set[str] = set()

    def is_served() -> bool:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        lines = [Path(f"/proc/{child}/cmdline").read_bytes().decode() for child in children]
        options.update(*(line.split("\0") for line in lines if "\0serve\0" in line))
        return bool(options)

    wait_for(is_served, LIMIT_S)
    code, said = done(process)
    assert code in (0, 5), said
    assert {"--kv-tokens", "2048", "--max-num-seqs", "3"} <= options
    assert set(counts(run.path).values()) == {1}
    code, said = done(
        start(tmp_path, *TAILBREAK, "run", "--resume", str(run.path), "--target", DEAD)
    )
    assert code == 2 or "nothing to resume" in said


def test_a_full_disk_stops_the_run_and_it_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """No file may pass 100 KB: exit 2, what to do, a readable store; without the limit: whole."""
    (tmp_path / "x.toml").write_text(to_toml(scenario_values(requests_per_cell=150)))
    with truth_server(ttft_ms=10) as truth:
        words = [sys.executable, *TAILBREAK, "run", "x.toml", "--target", truth.url]
        command = f"ulimit -f 100; exec {shlex.join(words)}"
        code, said = done(
            start(tmp_path, "-c", f"import os; os.execvp('bash', {['bash', '-c', command]!r})")
        )
        (run,) = tmp_path.glob("reports/runs/*")
        assert code == 2, said
        assert "free some space" in said
        assert f"tailbreak run --resume {run.relative_to(tmp_path)}" in said
        kept = counts(run)
        assert 0 < len(kept) < 316
        code, said = done(start(tmp_path, *TAILBREAK, "run", "--resume", str(run)))
        assert code in (0, 5), said
    assert len(counts(run)) == 316
    assert set(counts(run).values()) == {1}


REFUSED: dict[str, tuple[tuple[str, ...], list[str]]] = {
    # name: arguments before the run folder, words of the message
    "scenario": ((*TAILBREAK, "run", "x.toml", "--resume"), ["a scenario cannot be given"]),
    "seed": (
        (*TAILBREAK, "run", "--seed", "1", "--model", "m", "--resume"),
        ["--model and --seed"],
    ),
    "dead target": ((*TAILBREAK, "run", "--resume"), ["127.0.0.1:9", "refused"]),
    "locust scenario": ((*LOCUST, "--scenario", "x.toml", "--resume"), ["--scenario cannot be"]),
    "locust dead target": ((*LOCUST, "--resume"), ["127.0.0.1:9", "refused"]),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_contradicts_a_resumed_run_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    """Exit 2, the option by name; the run keeps its one session."""
    run = prepared(tmp_path)
    code, said = done(start(tmp_path, *arguments, str(run.path)))
    assert code == 2, said
    assert all(word in said for word in words), said
    assert len(run.read_json("run.json")["sessions"]) == 1


def test_neither_scenario_nor_run_is_said(tmp_path: Path) -> None:
    """`tailbreak run` alone: exit 2 and both ways to go on."""
    code, said = done(start(tmp_path, *TAILBREAK, "run"))
    assert code == 2
    assert "--resume" in said
