from pathlib import Path

import pytest

from harness.base.errors import RecordError, SetupError
from harness.load.session import prepare
from harness.records.run import RunFolder
from harness.scenario.baseline import recorded_baseline, require_baseline
from tests.make_records import SMALL, make_scenario

URL = "http://127.0.0.1:1"


def test_a_fitting_baseline_is_noted_by_its_path(tmp_path: Path) -> None:
    """The same scenario on this machine: `run.json` gets the folder, and it is found again."""
    before = prepare(make_scenario(), URL, tmp_path)
    noted = require_baseline(before.path, make_scenario())
    assert noted == {"baseline": str(before.path.resolve())}
    now = prepare(make_scenario(), URL, tmp_path)
    assert recorded_baseline(now) is None
    now.write_json("run.json", {**now.read_json("run.json"), **noted})
    assert recorded_baseline(now) == before.path.resolve()


def test_without_one_nothing_is_noted() -> None:
    """No option, no entry."""
    assert require_baseline(None, make_scenario()) == {}


def test_another_experiment_is_refused_with_every_reason(tmp_path: Path) -> None:
    """Two values differ: both are named, with the run and what to do."""
    before = prepare(make_scenario(), URL, tmp_path)
    text = SMALL.replace("concurrency = 2", "concurrency = 3").replace("spread = 2", "spread = 3")
    with pytest.raises(SetupError) as caught:
        require_baseline(before.path, make_scenario(text))
    said = str(caught.value)
    assert before.id in said
    assert "load.concurrency: 2 in the baseline, 3 here" in said
    assert "output.spread: 2 in the baseline, 3 here" in said
    assert "leave --baseline out" in said


def test_no_run_is_no_baseline(tmp_path: Path) -> None:
    """A folder without a run, and a baseline that was deleted since: said with the path."""
    with pytest.raises(RecordError, match="no run here"):
        require_baseline(tmp_path, make_scenario())
    run = RunFolder.create(tmp_path, "x")
    about = {"id": "x", "target": "http://h", "started": "2026", "status": "complete"}
    run.write_json("run.json", {**about, "baseline": str(tmp_path / "gone")})
    with pytest.raises(RecordError, match="gone; name it with --baseline"):
        recorded_baseline(run)
