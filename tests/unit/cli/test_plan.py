"""What `tailbreak plan` says about time."""

from typer.testing import CliRunner

from harness.cli.main import app
from harness.cli.plan import _duration
from harness.plan.build import build_plan
from tests.make_records import SMALL, make_scenario


def test_a_closed_loop_costs_rounds() -> None:
    """4 cells of 2 segments of 6 requests, 2 in flight: 24 rounds, 0.4 min a second."""
    said = _duration(build_plan(make_scenario()), 0.0)
    assert said == "Closed loop: 24 rounds, 0.4 min for each second that an answer takes."
    assert "and 0.8 min of thinking" in _duration(build_plan(make_scenario()), 2.0)


def test_an_open_loop_has_its_own_clock() -> None:
    """2,400 requests at 10 a second take 4 minutes, whatever the target does."""
    text = SMALL.replace("concurrency = 2", 'mode = "open"\nrate_rps = 10.0\narrivals = "constant"')
    text = text.replace("requests_per_cell = 8", "requests_per_cell = 600")
    text = text.replace("warmup_requests = 2", "warmup_requests = 0")
    said = _duration(build_plan(make_scenario(text)), 0.0)
    assert said == "Open loop: sending takes 4.0 min, and each segment its last answer."


def test_three_axes_fit_80_columns() -> None:
    """The table of three axes names each of them whole, and a cell is one line."""
    shown = CliRunner().invoke(app, ["plan", "scenarios/cot-penalty.toml"], env={"COLUMNS": "80"})
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    head = " ".join(" ".join(lines[2:4]).replace("┃", " ").split())
    assert "…" not in head
    assert all(word in head for word in ("prompt", "tokens", "cot", "depth", "frequency"))
    assert sum(line.startswith("│ c") for line in lines) == 5 * 3 * 2
    assert sum(line.startswith("│") for line in lines) == 5 * 3 * 2


def test_warm_up_is_told_apart() -> None:
    """28 segments of 8 warm-up requests: why a cell sends more than `requests_per_cell`."""
    shown = CliRunner().invoke(app, ["plan", "scenarios/any-server.toml"]).stdout
    assert "224 of the requests are warm-up" in shown
