"""The studies of `tailbreak bench` as a stranger runs them, at their smallest."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli_process import command

pytestmark = pytest.mark.e2e


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("bench", *arguments), capture_output=True, text=True, check=False, timeout=300
    )


def test_generators_are_timed_and_only_the_weak_one_fails(tmp_path: Path) -> None:
    """Five sources pass, the planted one fails, each has its times; the JSON says the same."""
    file = tmp_path / "generators.json"
    done = bench("generators", "--quick", "--seed", "1", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [bool(row["failed"]) for row in rows] == [False] * 5 + [True]
    for row in rows[:-1]:
        assert row["generator"] in done.stdout
        for taken in row["times"].values():
            times = taken["processor_s"]
            assert 0 < times["low"] <= times["value"] <= times["high"]
    assert rows[0]["times"]["1000"]["os_entropy_takes"]["value"] == 1


def test_an_unknown_study_is_refused_with_those_there_are() -> None:
    """A misspelt study ends with exit code 2."""
    done = bench("generator")
    assert done.returncode == 2
    assert "generator" in done.stderr


@pytest.mark.parametrize("study", ["kernels", "precision", "generators", "broadcast", "sync"])
def test_a_result_without_a_folder_is_refused_before_the_work(study: str, tmp_path: Path) -> None:
    """Nothing is timed for a file that cannot be written."""
    done = bench(study, "--json", str(tmp_path / "none" / "a.json"))
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'none'}" in " ".join(done.stderr.split())
    assert not done.stdout


def test_a_build_that_is_none_is_refused_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt TAILBREAK_ISA ends with exit code 2 and what this machine runs."""
    monkeypatch.setenv("TAILBREAK_ISA", "sse9")
    done = bench("kernels", "--quick")
    assert done.returncode == 2
    assert "TAILBREAK_ISA: got 'sse9', allowed on this machine: portable" in done.stderr
    assert "Traceback" not in done.stderr
