import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from kernels.bench.precision import N_STEPS, Drift, study


@pytest.fixture(scope="module")
def drifts() -> dict[tuple[str, str, str], Drift]:
    """The whole study, by penalty, way and type."""
    return {(each.penalty, each.how, each.type): each for each in study()}


def rounded(value: Fraction, n_bits: int) -> Fraction:
    """The nearest number of `n_bits` significant bits, ties to even; exponents are not bounded."""
    if value == 0:
        return value
    exponent = math.floor(math.log2(value)) - n_bits + 1
    unit = Fraction(2) ** exponent
    return round(value / unit) * unit


@pytest.mark.parametrize(("name", "n_bits"), [("fp32", 24), ("fp16", 11), ("bf16", 8)])
def test_sums_are_those_of_exact_rounding(
    drifts: dict[tuple[str, str, str], Drift], name: str, n_bits: int
) -> None:
    """Every step of 0.01 equals the sum that fractions give, rounded as IEEE 754 says."""
    added, total = rounded(Fraction(0.01), n_bits), Fraction(0)
    for step, value in enumerate(drifts["0.01", "summed", name].values, 1):
        total = rounded(total + added, n_bits)
        assert Fraction(value) == total, step


def test_the_published_case(drifts: dict[tuple[str, str, str], Drift]) -> None:
    """0.001 summed up 1,000 times: fp32 -9.3e-6, fp16 ends at 0.9785, bf16 stalls at 0.5."""
    fp32, fp16, bf16 = (drifts["0.001", "summed", name] for name in ("fp32", "fp16", "bf16"))
    assert fp32.errors[999] == pytest.approx(-9.3e-6, abs=5e-8)
    assert fp16.values[999] == pytest.approx(0.9785, abs=5e-5)
    assert bf16.values[999] == 0.5
    assert (fp32.stall_step, bf16.stall_step) == (None, 384)
    assert fp32.drift_step is None
    assert set(bf16.values[383:]) == {0.5}


def test_counting_rounds_once(drifts: dict[tuple[str, str, str], Drift]) -> None:
    """A counted penalty is never further off than half the spacing at its total."""
    spacing = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}
    for (penalty, how, name), each in drifts.items():
        if how == "counted":
            true = float(penalty) * np.arange(1, N_STEPS + 1)
            limit = spacing[name] / 2 + 2.0**-24  # the decimal penalty is rounded to float32 too
            assert (np.abs(each.errors) <= limit * true * 1.0001).all()
            assert each.stall_step is None


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    """Table, JSON and picture come from one call, the published figures beside ours."""
    files = ["--json", str(tmp_path / "d.json"), "--png", str(tmp_path / "d.png")]
    done = CliRunner().invoke(app, ["bench", "precision", *files])
    assert done.exit_code == 0, done.output
    assert "| 0.001   | summed  | bf16 | 0.5 " in done.output
    assert "0.0431 (317)" in done.output
    rows = json.loads((tmp_path / "d.json").read_text())["rows"]
    assert len(rows) == 24
    assert rows[2]["stall_step"] == 384
    assert rows[2]["errors"]["1000"] == -0.5
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
