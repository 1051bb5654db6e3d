import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from kernels.bench import bandwidth, table
from kernels.bench.case import Case, Target
from kernels.bench.cases import OPS, build_cases
from kernels.bench.study import QUICK, Row, run_case
from kernels.bench.timing import Contender


def spin(n: int) -> None:
    """Work that takes time in proportion to n."""
    total = 0.0
    for i in range(n):
        total += math.sqrt(i)


def rows_with(target: Target) -> dict[str, Row]:
    """A native backend that is about ten times as fast as torch."""
    case = Case(
        op="op",
        shape="some",
        n_bytes=1 << 16,
        contenders=lambda: [
            Contender(name="cpu", run=lambda: spin(1000)),
            Contender(name="torch", run=lambda: spin(10_000)),
        ],
        n_items=1000,
        target=target,
    )
    return {row.contender: row for row in run_case(case, QUICK)}


def test_a_target_that_is_reached_is_met() -> None:
    """Ratio, time, added share and rate within reach leave nothing to explain."""
    row = rows_with(
        Target(most_s=10, least_ratios={"torch": 2}, most_added={"torch": 0.1}, least_rate=1e3)
    )["cpu"]
    asked = ["met <= 10000 ms", "met >= 2x torch", "met <= 10% over torch", "met >= 1e-06 G/s"]
    assert [str(each) for each in row.verdicts] == asked
    assert row.reason == ""
    assert row.ratios["torch"].value > 2


def test_a_miss_is_marked_with_figure_and_reason() -> None:
    """Each part that was missed is told; what was reached beside it and peers stay clean."""
    target = Target(most_s=1e-9, least_ratios={"torch": 2}, most_added={"torch": -0.99})
    rows = rows_with(target)
    time_, ratio, added = map(str, rows["cpu"].verdicts)
    assert time_.startswith("MISSED <= 1e-06 ms (got 0.")
    assert ratio == "met >= 2x torch"
    assert added.startswith("MISSED <= -99% over torch (got -")
    assert "of the measured" in rows["cpu"].reason
    assert rows["torch"].verdicts == ()
    assert table.cells(rows["cpu"])[-1].count("MISSED") == 2
    (note,) = table.notes(rows.values())
    assert note.startswith("op, some, threads 1: MISSED <= 1e-06 ms")
    assert "met >=" not in note


def test_the_floor_grows_with_the_bytes() -> None:
    """Memory read at its measured rate: 64 times the bytes need more time, at a finite rate."""
    assert 0 < bandwidth.floor_s(1 << 20, 1) < bandwidth.floor_s(1 << 26, 1)
    assert bandwidth.floor_s(1 << 20, 1, "copy") > 0


def test_every_op_is_timed(tmp_path: Path) -> None:
    """The quick study runs every op, prints a table of each, writes JSON and a picture."""
    json_file, png = tmp_path / "rows.json", tmp_path / "roofline.png"
    arguments = ["bench", "kernels", "--quick", "--json", str(json_file), "--png", str(png)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(json_file.read_text())
    assert {row["op"] for row in told["rows"]} == set(OPS)
    assert all(row["cost_s"]["value"] > 0 for row in told["rows"])
    assert all(f"\n{op}\n" in result.stdout for op in OPS)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_op_is_refused() -> None:
    """The message has the ops there are."""
    result = CliRunner().invoke(app, ["bench", "kernels", "--ops", "softmax"])
    assert str(result.exception).startswith("--ops: got 'softmax', allowed sampling")


@pytest.mark.parametrize("study", ["kernels", "precision"])
def test_the_help_of_a_study_fits_80_columns(study: str) -> None:
    """No line is longer, nothing is cut, and there is an example."""
    shown = CliRunner().invoke(app, ["bench", study, "--help"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert f"Example: tailbreak bench {study}" in shown


def test_a_quick_look_is_held_to_no_target() -> None:
    """A target is for the full sizes: the small ones of a quick look cannot miss it."""
    assert any(case.target for case in build_cases(["state_codec"], is_quick=False))
    assert not any(case.target for case in build_cases(list(OPS), is_quick=True))
