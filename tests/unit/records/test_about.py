import json
from pathlib import Path
from typing import Any

import pytest

from harness.base.errors import RecordError, SetupError
from harness.records.about import read_about
from harness.records.client_account import read_account
from harness.records.run import RunFolder

WHOLE: dict[str, Any] = {"id": "x", "target": "http://h", "started": "2026", "status": "running"}


def make_folder(folder: Path, **files: Any) -> RunFolder:
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return RunFolder(folder)


def test_a_run_of_an_older_version_has_one_session(tmp_path: Path) -> None:
    """Nothing but the four required values is needed; what is beside them stays."""
    about = read_about(make_folder(tmp_path, run={**WHOLE, "new": 1}))
    assert about["sessions"] == [{"number": 1, "started": "2026", "ended": None}]
    assert about["new"] == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"status": None}, "status"),
        ({"status": "done"}, "status"),
        ({"target": 5}, "target"),
        ({"finished": []}, "finished"),
        ({"is_bundled": "no"}, "is_bundled"),
        ({"baseline": 3}, "baseline"),
        ({"sessions": 5}, "sessions"),
        ({"sessions": []}, "sessions"),
        ({"sessions": [None]}, "sessions.0"),
        ({"sessions": [{"number": 1, "started": "2026", "models": "x"}]}, "sessions.0.models"),
    ],
)
def test_a_damaged_or_edited_file_is_told(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    """A value of another kind is named with its file, and nobody trips over it later."""
    with pytest.raises(RecordError, match=rf"run\.json: damaged, or edited: {named}: "):
        read_about(make_folder(tmp_path, run=WHOLE | changed))


@pytest.mark.parametrize("value", [None, [], 5, "x", {}])
def test_what_is_no_object_is_told(tmp_path: Path, value: Any) -> None:
    """Any JSON but a run's object is an error with the path."""
    with pytest.raises(RecordError, match=r"run\.json: "):
        read_about(make_folder(tmp_path, run=value))


def test_the_loads_account_is_checked_too(tmp_path: Path) -> None:
    """A count that is a text would be compared with a limit."""
    assert read_account(RunFolder(tmp_path), 1) == {}
    run = make_folder(tmp_path, client={"clock_steps": "many", "lost_workers": 5})
    with pytest.raises(RecordError, match=r"client\.json: .*clock_steps: .*lost_workers: "):
        read_account(run, 1)


@pytest.mark.parametrize("kind", ["file", "link to nowhere"])
def test_where_no_run_folder_can_be_made_is_said(tmp_path: Path, kind: str) -> None:
    """A file, or a link to nowhere, in the runs folder's place: what is wrong and what to do."""
    runs = tmp_path / "runs"
    if kind == "file":
        runs.write_text("x", encoding="utf-8")
    else:
        runs.symlink_to(tmp_path / "gone")
    with pytest.raises(SetupError, match=r"cannot create the run folder .*File exists.*--runs-dir"):
        RunFolder.create(runs, "x")
