"""Profilers' files as a stranger reads them; those of torch come from real ranks over gloo."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli_process import command
from tests.unit.importers.nsight_files import NsightSystems

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


def test_nsight_files_are_told_by_file(tmp_path: Path) -> None:
    """An SQLite export and a raw page together: copies, symptoms, stalls; in the JSON as well."""
    export = NsightSystems(tmp_path / "systems.sqlite")
    for i in range(5):
        at = i * 1_000_000
        export.add(
            ranges=[(at, at + 900_000, f"step {i}")],
            kernels=[(at, at + 400_000, "gemm")],
            copies=[(at + 400_000, at + 500_000, 1 << 20, 2),
                    (at + 600_000, at + 700_000, 1 << 20, 1)],
            calls=[(at, at + 90_000, "cudaLaunchKernel")],
        )  # fmt: skip
    page = tmp_path / "compute.csv"
    stall = "smsp__pcsamp_warps_issue_stalled_{}"
    page.write_text(
        f'"ID","Kernel Name","gpu__time_duration.sum","{stall.format("short_scoreboard")}",'
        f'"{stall.format("wait")}"\n"","","us","",""\n"0","penalty","2,500","30","10"\n'
    )
    told = tmp_path / "told.json"
    done = tailbreak("trace", str(export.path), str(page), "--json", str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "short_scoreboard: waits for shared memory or special functions" in done.stdout
    assert "candidate_copies: " in done.stdout
    found = json.loads(told.read_text())
    work = found["work"][str(export.path)]
    assert work["n_steps"] == 5
    assert work["launch_share"] == pytest.approx(0.1)
    assert work["copies"]["device to host"] == {
        "n": 5, "n_bytes": 5 << 20, "time_s": pytest.approx(5e-4),
        "share": pytest.approx(1 / 9),
    }  # fmt: skip
    (row,) = found["kernels"][str(page)]
    assert row["time_s"] == pytest.approx(2.5e-3)
    assert row["stalls"] == {"short_scoreboard": 0.75, "wait": 0.25}
    assert [each["name"] for each in found["symptoms"]] == ["candidate_copies"]
    assert found["ranks"] is None


def test_names_from_a_file_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    """Control characters and markup in names are shown, not obeyed."""
    page = tmp_path / "a.csv"
    page.write_text('"ID","Kernel Name","Duration"\n"0","[red]evil\x1b[2J\r","5"\n')
    done = tailbreak("trace", str(page))
    assert done.returncode == 0, done.stderr
    assert "[red]evil" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_bar_is_there_only_where_someone_watches(tmp_path: Path) -> None:
    """On a terminal each file's name comes and goes on stderr; elsewhere nothing does."""
    trace = tmp_path / "[bold]rank.json"
    trace.write_text('{"traceEvents": []}')
    assert tailbreak("trace", str(trace)).stderr == ""
    master, terminal = pty.openpty()
    done = subprocess.run(
        command("trace", str(trace)), stdout=subprocess.PIPE, stderr=terminal, check=True,
        timeout=300, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(terminal)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "[bold]rank.json" in shown
    assert "100%" in shown
    assert b"rank.json: no event" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trace", "none.json"), "none.json: cannot be read"),
        (("trace", "LICENSE"), "allowed the torch profiler's Chrome trace"),
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
