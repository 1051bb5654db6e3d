"""`tailbreak incident` on a run's telemetry, and everything it refuses before it asks anyone."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from harness.base.errors import RecordError, SetupError
from harness.cli.incident import incident
from harness.records.run import RunFolder
from harness.records.telemetry import write_telemetry
from tests.make_telemetry import START_S, make_rows

SPANS = ("--normal", f"{START_S}..{START_S + 59}", "--fault", "-59s..now")


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(incident)
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that holds nothing but what its server said: long collections from 60 s on."""
    folder = RunFolder.create(tmp_path, "r")
    about = {"id": "r", "target": "http://x", "started": "2026-01-01", "status": "complete"}
    folder.write_json("run.json", about)
    rows = make_rows(3, collections=0.42, gc_pause_s=0.187)
    write_telemetry(folder.path / "telemetry.parquet", rows)
    return folder


def test_a_run_is_read_as_a_prometheus_is(run: RunFolder, tmp_path: Path) -> None:
    """The planted symptom is the first cause; times count back from the end of the telemetry."""
    out = tmp_path / "i.json"
    done = invoke(str(run.path), *SPANS, "--json", str(out))
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(out.read_text())
    assert found["first_cause"] == "gc_pauses"
    assert found["fault"] == [START_S + 60, START_S + 119]
    assert found["link"] is None
    assert "First cause: gc_pauses." in done.output


def test_a_scraped_file_is_read_as_a_run_is(tmp_path: Path) -> None:
    """What `tailbreak scrape --out` wrote; a file that is none is told."""
    path, out = tmp_path / "scraped.parquet", tmp_path / "i.json"
    write_telemetry(path, make_rows(3, collections=0.42, gc_pause_s=0.187))
    done = invoke(str(path), *SPANS, "--json", str(out), "--replay", str(tmp_path / "r.toml"))
    assert json.loads(out.read_text())["first_cause"] == "gc_pauses", done.output
    path.write_text("no telemetry")
    assert isinstance(invoke(str(path), *SPANS).exception, RecordError)


def test_shares_are_per_cents_and_times_are_iso(run: RunFolder) -> None:
    """Evidence as a reader has it; a time without readings in words that the option takes."""
    told = " ".join(invoke(str(run.path), *SPANS).output.split())
    assert "share of the time in collections 9.8 % (normal" in told
    empty = invoke(str(run.path), "--normal", "1700000000..1700000059", "--fault", "-59s..now")
    assert "no reading from 2023-11-14T22:13:20Z to 2023-11-14T22:14:19Z;" in str(empty.exception)


def test_a_run_without_telemetry_is_told(tmp_path: Path) -> None:
    """With what to do: scrape, or ask a Prometheus."""
    folder = RunFolder.create(tmp_path, "r")
    folder.write_json("run.json", {})
    done = invoke(str(folder.path), *SPANS)
    assert isinstance(done.exception, SetupError)
    assert "--prometheus URL" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --normal"),
        (SPANS, "either --prometheus URL or a run folder"),
        (("run", *SPANS, "--prometheus", "http://x"), "either --prometheus URL or a run folder"),
        (("--from-command", "hey http://x"), "needs --replay"),
        (("--from-command", "hey http://x", "--replay", "r", *SPANS), "and nothing else"),
        (("run", *SPANS, "--match", "job=x"), "give --prometheus URL"),
        ((*SPANS, "--prometheus", "http://x", "--match", "job"), "allowed LABEL=VALUE"),
        (("--normal", "-9m..-4m", "--fault", "-5m..now", "--prometheus", "http://x"), "overlap"),
    ],
)
def test_what_is_not_enough_is_told(arguments: tuple[str, ...], words: str) -> None:
    """Windows and one source, or a command line and a file."""
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())


def test_a_folder_that_is_not_there_is_told_first(tmp_path: Path) -> None:
    """Before a Prometheus is asked for minutes of data."""
    done = invoke(*SPANS, "--prometheus", "http://127.0.0.1:9", "--json", str(tmp_path / "no/i"))
    assert isinstance(done.exception, SetupError)
    assert "--json" in str(done.exception)


def test_a_command_line_becomes_a_scenario(tmp_path: Path) -> None:
    """No window and no source are needed for it."""
    path = tmp_path / "r.toml"
    done = invoke("--from-command", "wrk -c 4 http://localhost:8000", "--replay", str(path))
    assert done.exit_code == 0
    assert "concurrency = 4" in path.read_text()
