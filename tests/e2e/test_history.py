"""Two nights of runs, backfilled into a Prometheus: the history board shows what reports say."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dashboards.boards import BOARDS
from harness.export.board_queries import Window, queries_of
from harness.importers.prometheus_api import PrometheusApi, Series
from harness.server.truth.process import start_truth
from tests.cli_process import command
from tests.e2e.truth_process import to_toml
from tests.grafana_contract import TOKEN, Store, grafana
from tests.prometheus_process import needs_prometheus, prometheus, promtool

pytestmark = [pytest.mark.e2e, needs_prometheus]
LAW = """
schema = 1
name = "step"
title = "Three times as long past 300 tokens"

[ttft]
base_s = 0.2
breaks = [{ kind = "jump", at = 300, size = 2.0 }]
noise = { cv = 0.03 }

[itl]
base_s = 0.002
noise = { cv = 1.0 }

[truth]
found = ["jump"]
"""
SHARE = """# TYPE mc_run_component_share_ratio gauge
mc_run_component_share_ratio{{service="chat",version="1",scenario="nightly",path="",metric="ttft_s",\
q="0.5",axis="prompt_tokens",at="",component="attention"}} 0.8 {at}
# EOF
"""
"""What no truth server can tell: it has no phases."""
SCENARIO: dict[str, Any] = {
    "schema": 1, "name": "nightly", "title": "Nightly", "seed": 7,
    "target": {"model": "truth", "service": "chat", "version": "1"},
    "load": {
        "concurrency": 32, "requests_per_cell": 96, "segments_per_cell": 2, "warmup_requests": 8,
    },
    "output": {"tokens": 2},
    "axes": {"prompt_tokens": [64, 91, 128, 181, 256, 362, 512, 724]},
    "analysis": {"metric": "ttft_s", "q": 0.5, "axis": "prompt_tokens"},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class History:
    """Two reports, the second run, and the panels of the board over the hour that holds both."""

    run: Path
    reports: tuple[dict[str, Any], dict[str, Any]]
    panels: dict[str, list[Series]]

    def finding(self, title: str, **labels: str) -> Series:
        """The one series of a panel with these labels."""
        (found,) = (s for s in self.panels[title] if labels.items() <= s.labels.items())
        return found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Run twice on a planted jump, the second against the first, export both, backfill, ask."""
    folder = tmp_path_factory.mktemp("history")
    law, scenario = folder / "law.toml", folder / "s.toml"
    law.write_text(LAW)
    scenario.write_text(to_toml(SCENARIO))
    with start_truth(law) as truth:
        first = _run(folder / "first", scenario, truth.url)
        second = _run(folder / "second", scenario, truth.url, "--baseline", str(first))
    data = folder / "prometheus" / "data"
    data.mkdir(parents=True)
    for number, run in enumerate((first, second)):
        text = folder / f"{number}.om"
        _require(command("export", str(run), "--openmetrics", str(text)))
        _backfill(text, data)
    shares = folder / "shares.om"
    shares.write_text(SHARE.format(at=_started(second)))
    _backfill(shares, data)
    reports = [json.loads((run / "report.json").read_text()) for run in (first, second)]
    with prometheus(folder / "prometheus", {}) as running:
        yield History(run=second, reports=(reports[0], reports[1]), panels=_panels(running.url))


def _run(runs: Path, scenario: Path, url: str, *options: str) -> Path:
    _require(
        command("run", str(scenario), "--target", url, "--runs-dir", str(runs), *options),
        allowed=(0, 4, 5),
    )
    (run,) = runs.iterdir()
    return run


def _backfill(text: Path, data: Path) -> None:
    done = promtool("tsdb", "create-blocks-from", "openmetrics", str(text), str(data))
    assert done.returncode == 0, done.stderr


def _started(run: Path) -> float:
    """Unix time of a run's start."""
    return datetime.fromisoformat(json.loads((run / "run.json").read_text())["started"]).timestamp()


def _require(arguments: list[str], allowed: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in allowed, done.stdout + done.stderr


def _panels(url: str) -> dict[str, list[Series]]:
    """Every panel's series over the last hour, which holds both nights."""
    api = PrometheusApi(url)
    now = api.query("time()")[0].times[0]
    window = Window(start=now - 3600, end=now + 60)
    (board,) = (each.to_json() for each in BOARDS if each.uid == "tailbreak-nightly")
    (quantile,) = (each for each in board["templating"]["list"] if each["name"] == "q")
    quantile["current"]["value"] = str(SCENARIO["analysis"]["q"])
    return {
        each.title: (
            api.query(each.promql, at=window.end)
            if each.is_instant
            else api.query_range(
                each.promql, start=window.start, end=window.end, step_s=window.step_s
            )
        )
        for each in queries_of(board, window)
    }


def _last(series: Series) -> float:
    return series.values[-1]


def test_no_panel_is_empty(history: History) -> None:
    """Quantiles, ratios, breakpoints, shares and verdicts of finished runs are all there."""
    assert {title for title, series in history.panels.items() if not series} == set()


def test_both_nights_have_their_verdict(history: History) -> None:
    """A point for each run; none of them a regression unless its report says so."""
    (nights,) = history.panels["Nights with a verdict"]
    assert _last(nights) == 2
    statuses = [report["verdict"]["status"] for report in history.reports]
    (regressions,) = history.panels["Regressions"]
    assert _last(regressions) == statuses.count("regression")
    shown = {series.labels["status"] for series in history.panels["Verdict of each night"]}
    assert shown == set(statuses)


def test_quantiles_have_the_report_s_values_and_intervals(history: History) -> None:
    """Value, low and high of every cell, to the last digit; an open bound has no series."""
    cells = history.reports[1]["cells"]
    assert len(cells) == 8
    for cell in cells:
        estimate = cell["metrics"]["ttft_s"]["p50"]
        shown = {
            series.labels["bound"]: _last(series)
            for series in history.panels["Quantile of each cell"]
            if series.labels["cell"] == cell["id"]
        }
        of_both = shown.keys() - {name for name, value in estimate.items() if value is not None}
        assert shown["value"] == estimate["value"]
        assert of_both <= {"low", "high"}  # of the first night


def test_the_planted_break_is_on_the_board(history: History) -> None:
    """Location, interval and the kind of break, and whose share it is."""
    (found,) = history.reports[1]["breakpoints"]
    assert found["kind"] in {"jump", "both"}
    for bound in ("location", "low", "high"):
        series = history.finding("Where it breaks", bound=bound, kind=found["kind"])
        assert _last(series) == found[bound]
    assert 256 <= found["location"] <= 362
    assert _last(history.finding("Who is to blame", component="attention")) == 0.8


def test_ratios_are_those_of_the_second_night(history: History) -> None:
    """Candidate over reference of each cell, named after the run that it is compared with."""
    compared = history.reports[1]["baseline"]
    for each in compared["metrics"]:
        if each["ratio"] is not None:
            series = history.finding(
                "Ratio to the reference", cell=each["cell"], over=compared["reference"],
                bound="value",
            )  # fmt: skip
            assert _last(series) == each["ratio"]


def _annotated(run: Path, url: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command("dashboards", "annotate", str(run), "--url", url),
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_is_marked_in_a_grafana_once(history: History) -> None:
    """The run, its segments, its break and its verdict are posted; a second call posts nothing."""
    environment = {**os.environ, "GRAFANA_TOKEN": TOKEN}
    with grafana(store := Store()) as url:
        said = [_annotated(history.run, url, environment) for _ in range(2)]
    n_segments = 8 * 2
    assert len(store.annotations) == 1 + n_segments + 1 + 1
    assert f"0 marks posted, {len(store.annotations)} were there" in said[1]
    tags = {tag for each in store.annotations for tag in each["tags"]}
    assert {"tailbreak", f"run:{history.run.name}", "breakpoint", "cell:c07"} <= tags
    status = history.reports[1]["verdict"]["status"]
    assert f"verdict:{status}" in tags
    whole = store.annotations[0]
    assert all(
        whole["time"] <= each["time"] <= each["timeEnd"] <= whole["timeEnd"]
        for each in store.annotations
    )
