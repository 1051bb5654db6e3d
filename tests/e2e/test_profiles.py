"""Profilers' files as a stranger reads them; those of torch come from real ranks over gloo."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli_process import command

pytestmark = pytest.mark.e2e


def tailbreak(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=300
    )


def test_the_late_one_of_four_real_ranks_is_named(tmp_path: Path) -> None:
    """Rank 1 sleeps 40 ms before each all-reduce: it is the straggler, the others waited."""
    done = tailbreak(
        "bench", "sync", "--straggler", "1:40", "--steps", "25", "--out", str(tmp_path / "ranks")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(map(str, (tmp_path / "ranks").iterdir()))
    assert [Path(each).name for each in files] == [f"rank{rank}.json.gz" for rank in range(4)]
    told, png = tmp_path / "told.json", tmp_path / "ranks.png"
    again = tailbreak("trace", *files, "--json", str(told), "--png", str(png))
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout == done.stdout
    assert "straggler: rank 1 came last to " in again.stdout
    ranks = json.loads(told.read_text())["ranks"]
    assert ranks["n_collectives"] == 25
    late = ranks["rows"].pop(1)
    assert late["n_last"] >= 20
    assert late["caused_s"] > 25 * 3 * 0.02
    for row in ranks["rows"]:
        assert row["wait_s"] > 25 * 0.02 > late["wait_s"]
        assert abs(row["clock_offset_s"]) < 0.01  # one machine: one clock
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trace", "none.json"), "none.json: cannot be read"),
        (("trace", __file__), "allowed the torch profiler's Chrome trace"),
        (("bench", "sync", "--straggler", "9:5"), "with a rank from 0 to 3"),
        (("bench", "sync", "--straggler", "1"), "got '1', allowed RANK:MS"),
    ],
)
def test_wrong_input_is_told(arguments: tuple[str, ...], said: str) -> None:
    """One message, exit code 2."""
    done = tailbreak(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
