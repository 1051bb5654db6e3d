from pathlib import Path

import pytest

from harness.load.session import close, prepare
from harness.load.verdict import FinalReport, ask_for_verdict
from harness.plan.build import build_plan
from harness.records.run import RunFolder
from harness.records.shard import ShardWriter
from tests.make_records import SMALL, make_scenario, records_of

URL = "http://127.0.0.1:1"


def finished_run(folder: Path) -> RunFolder:
    """A complete run with all its rows in one shard and a limit that it keeps, no report yet."""
    scenario = make_scenario(f"{SMALL}\n[limits]\nslo_ttft_s = 60.0\n")
    run = prepare(scenario, URL, folder)
    writer = ShardWriter(run.shards, "load-0")
    for record in records_of(build_plan(scenario)):
        writer.append(record)
    writer.close()
    close(run, is_complete=True)
    return run


def test_a_finished_run_gets_its_report_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are compacted, the report is written, its verdict told once; asking again makes none."""
    run = finished_run(tmp_path)
    report = FinalReport(run)
    report.tell()
    told = capsys.readouterr().out
    assert "small: pass" in told
    assert str(run.path / "report.html") in told.replace("\n", "")
    assert run.has("requests.parquet")
    assert not list(run.shards.glob("*.arrows"))
    (run.path / "report.html").unlink()
    report.tell()
    assert report.verdict().exit_code == 0
    assert capsys.readouterr().out == ""
    assert not run.has("report.html")


def test_what_cannot_be_reported_is_exit_2_and_said(tmp_path: Path) -> None:
    """A plan that is no JSON, a folder that is gone: exit 2 with the file, and no traceback."""
    run = finished_run(tmp_path)
    (run.path / "plan.json").write_text("{", encoding="utf-8")
    found = ask_for_verdict(run)
    assert found.exit_code == 2
    assert "plan.json" in found.text
    assert "Traceback" not in found.text
    gone = ask_for_verdict(RunFolder(tmp_path / "gone"))
    assert gone.exit_code == 2
    assert f"tailbreak report {tmp_path / 'gone'}" in gone.text
