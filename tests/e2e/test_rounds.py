"""Runs in rounds against a planted law: placed, confirmed, narrow; killed and resumed."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.load.runner import load_environment
from harness.plan.codec import plan_from_json
from harness.records.columns import from_table
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.server.truth.process import TruthProcess, start_truth
from tests.cli_process import command
from tests.e2e.truth_process import to_toml

pytestmark = pytest.mark.e2e
JUMP_AT = 300
LAW = f"""
schema = 1
name = "cliff"
title = "Twice as long past {JUMP_AT} prompt tokens"
[ttft]
base_s = 0.03
breaks = [{{ kind = "jump", at = {JUMP_AT}, size = 1.0 }}]
noise = {{ cv = 0.05 }}
[itl]
base_s = 0.001
noise = {{ cv = 1.0 }}
[truth]
found = ["jump"]
"""


def scenario(**more: Any) -> str:
    return to_toml(
        {
            "schema": 1, "name": "rounds", "title": "In rounds", "seed": 3,
            "target": {"model": "truth"},
            "load": {
                "concurrency": 8, "requests_per_cell": 480, "segments_per_cell": 2,
                "warmup_requests": 4,
            },
            "output": {"tokens": 4},
            "axes": {"prompt_tokens": [100, 150, 220, 330, 480, 700]},
            "analysis": {"axis": "prompt_tokens", "q": 0.9}, **more,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TruthProcess]:
    """A server with a cliff."""
    path = tmp_path_factory.mktemp("law") / "law.toml"
    path.write_text(LAW)
    with start_truth(path) as server:
        yield server


def start(truth: TruthProcess, folder: Path, *, text: str) -> "subprocess.Popen[str]":
    path = folder / "scenario.toml"
    path.write_text(text)
    return subprocess.Popen(
        [*command("run", str(path)), "--target", truth.url, "--runs-dir", str(folder / "runs")],
        cwd=folder, env=load_environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def report_of(folder: Path) -> tuple[RunFolder, dict[str, Any]]:
    (path,) = (folder / "runs").iterdir()
    return RunFolder.open(path), json.loads((path / "report.json").read_text())


def require_each_once(run: RunFolder) -> None:
    """Every planned request has one answered record, and none is of no plan."""
    plan = plan_from_json(run.read_json("plan.json"))
    planned = {(s.id, request.index) for s in plan.segments for request in s.requests}
    rows = [row for row in from_table(read_rows(run).table) if row.index >= 0]
    counts = Counter((row.segment, row.index) for row in rows if row.outcome != "cancelled")
    assert set(counts) == planned
    assert set(counts.values()) == {1}


def test_a_cliff_is_placed_by_new_cells_and_confirmed(truth: TruthProcess, tmp_path: Path) -> None:
    """Refined to a quarter of the grid's gap, within the plan's budget, by requests of a round."""
    process = start(truth, tmp_path, text=scenario(refine={"within_octaves": 0.15}))
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, out + err
    run, report = report_of(tmp_path)
    require_each_once(run)
    (found,) = report["breakpoints"]
    assert found["kind"] == "jump", found
    assert found["low"] <= JUMP_AT <= found["high"]
    assert found["high"] / found["low"] <= 2**0.15 + 1e-9
    assert found["confirmed"]["low"] > 0.5
    axis = [cell["factors"]["prompt_tokens"] for cell in report["cells"]]
    assert len(axis) > 6
    assert sum(cell["n"] for cell in report["cells"]) <= 6 * 480
    assert "round 2: " in err
    assert "on one start of the target" in " ".join(report["caveats"])
    assert "resumed" not in " ".join(report["caveats"])


def test_a_killed_run_goes_on_at_its_round(truth: TruthProcess, tmp_path: Path) -> None:
    """`kill -9` amid the second round: resumed to the end, every request once, rounds in order."""
    process = start(truth, tmp_path, text=scenario(stop={"half_width": 0.02}))
    assert process.stderr is not None
    told = next(line for line in process.stderr if line.startswith("round 2: "))
    assert "for narrower intervals" in told
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (path,) = (tmp_path / "runs").iterdir()
    done = subprocess.run(
        command("run", "--resume", str(path)),
        cwd=tmp_path, env=load_environment(), text=True, capture_output=True, timeout=180,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    run, report = report_of(tmp_path)
    require_each_once(run)
    repeats = [each["first_repeat"] for each in run.read_object("run.json")["rounds"]]
    assert repeats == sorted(set(repeats))
    states = {cell["state"] for cell in report["cells"]}
    assert states <= {"converged", "wide"}
    for cell in report["cells"]:
        reached = cell["stop"]["half_width"]  # null where a bound is open
        is_narrow = reached is not None and reached <= 0.02
        assert (cell["state"] == "converged") == is_narrow, cell["stop"]
