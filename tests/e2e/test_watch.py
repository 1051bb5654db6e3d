"""Everything watched at once: a run, its server, two GPU hosts, one Prometheus, every query.

Boards and alerts name metrics; whether the exporters really give them, with the labels that are
asked for, shows only here.
"""

import json
import math
import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.image import imread

from dashboards.alerts import ALERTS
from dashboards.boards import BOARDS
from dashboards.metric_names import metrics_of
from dashboards.render import HERE
from harness.export.board_queries import Query, Window, queries_of
from harness.importers.prometheus_api import PrometheusApi, Series
from harness.metrics.catalogue.metric import LATENCY_BUCKETS
from harness.metrics.latency import LATENCIES
from harness.records.frame import to_frame
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.server.machine import POWERCAP_VARIABLE
from tests.cli_process import command
from tests.e2e.locust_process import free_port
from tests.e2e.truth_process import to_toml
from tests.nvml.fake import A100, gpu_exporter, needs_compiler
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus

pytestmark = [pytest.mark.e2e, needs_prometheus, needs_compiler]
SCRAPE_S = 1.0
RULES = sorted((HERE / "rules").glob("*.yml"))
SCENARIO: dict[str, Any] = {
    "schema": 1, "name": "watched", "title": "Watched", "seed": 5,
    "target": {"model": "tiny", "service": "chat", "version": "7"},
    "load": {
        "concurrency": 4, "requests_per_cell": 120, "segments_per_cell": 2, "warmup_requests": 4,
    },
    "output": {"tokens": 8},
    "axes": {"prompt_tokens": [32, 64], "accelerated": [False, True]},
    "analysis": {"axis": "prompt_tokens"},
}  # fmt: skip
WATTS = 12.0
"""Of the processor package whose energy counter the server reads: most machines hide theirs."""
N_PLANNED = 4 * 120


def last(series: Series) -> float:
    """Its last value."""
    return series.values[-1]  # noqa: PD011  a tuple


def finite(series: Series) -> list[float]:
    """Its values but for those of moments at which nothing happened."""
    return [value for value in series.values if math.isfinite(value)]  # noqa: PD011  a tuple


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A run that was watched, and the Prometheus that did.

    Attributes:
        rows: the run's analysed records.
    """

    prometheus: Prometheus
    window: Window
    rows: pd.DataFrame

    def ask(self, query: Query) -> list[Series]:
        """Series of a query over the whole time."""
        api, window = PrometheusApi(self.prometheus.url), self.window
        if query.is_instant:
            return api.query(query.promql, at=window.end)
        return api.query_range(
            query.promql, start=window.start, end=window.end, step_s=window.step_s
        )

    def panel(self, uid: str, title: str) -> dict[str, list[Series]]:
        """Series of each query of a panel, by its letter."""
        (board,) = (each for each in BOARDS if each.uid == uid)
        found = {
            each.ref: self.ask(each)
            for each in queries_of(board.to_json(), self.window)
            if each.title == title
        }
        assert found, title
        return found

    def number(self, uid: str, title: str, ref: str = "A") -> float:
        """The last value of a panel's one series."""
        (series,) = self.panel(uid, title)[ref]
        return last(series)


@contextmanager
def _package(folder: Path) -> Iterator[Path]:
    """A processor package that uses WATTS, in the files that Linux has for one."""
    zone, over = folder / "intel-rapl:0", threading.Event()
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0")
    (zone / "max_energy_range_uj").write_text(str(2**40))

    def use() -> None:
        start = time.monotonic()
        while not over.wait(0.05):
            fresh = zone / "new"
            fresh.write_text(f"{(time.monotonic() - start) * WATTS * 1e6:.0f}")
            fresh.replace(zone / "energy_uj")

    (zone / "energy_uj").write_text("0")
    using = threading.Thread(target=use, daemon=True)
    using.start()
    try:
        yield folder
    finally:
        over.set()
        using.join()


@contextmanager
def _serving(powercap: Path) -> Iterator[str]:
    """The bundled server with a fault that does no harm: its host:port."""
    process = subprocess.Popen(
        command("serve", "--port", "0", "--faults", "store:1ms"), stdout=subprocess.PIPE, text=True,
        env={**os.environ, POWERCAP_VARIABLE: str(powercap)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.partition("http://")[2].strip()
    finally:
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()


def _now() -> float:
    return time.time()  # noqa: TID251  Prometheus keeps wall-clock time


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A short run on the bundled server, with everything that can be scraped scraped."""
    folder = tmp_path_factory.mktemp("watched")
    scenario, port = folder / "s.toml", free_port()
    scenario.write_text(to_toml(SCENARIO))
    with ExitStack() as stack:
        server = stack.enter_context(_serving(stack.enter_context(_package(folder / "powercap"))))
        targets = {
            "tailbreak-load": f"127.0.0.1:{port}",
            "tailbreak-server": server,
            "tailbreak-gpu": stack.enter_context(gpu_exporter()),
            "tailbreak-gpu-old": stack.enter_context(gpu_exporter(A100)),
        }
        start = _now()
        running = stack.enter_context(
            prometheus(folder / "prometheus", targets, rules=RULES, scrape_s=SCRAPE_S)
        )
        done = subprocess.run(
            command("run", str(scenario), "--target", f"http://{server}", "--runs-dir",
                    str(folder / "runs"), "--metrics-port", str(port)),
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 5), done.stdout + done.stderr
        running.wait_for("mc_gpu_up == 0", 60)  # the scenario's sixth second
        (run,) = (folder / "runs").iterdir()
        rows = to_frame(read_rows(RunFolder.open(run)))
        yield Watched(
            prometheus=running,
            window=Window(start=start, end=_now(), scrape_s=SCRAPE_S),
            rows=rows[~rows["is_warmup"]],
        )


LIVE = [board for board in BOARDS if board.uid != "tailbreak-nightly"]


@pytest.mark.parametrize("uid", [board.uid for board in LIVE])
def test_every_query_of_every_panel_gives_something(watched: Watched, uid: str) -> None:
    """No query is refused, and none is empty."""
    (board,) = (each for each in LIVE if each.uid == uid)
    queries = list(queries_of(board.to_json(), watched.window))
    empty = {each.title for each in queries if not watched.ask(each)}
    assert len(queries) > 20
    assert empty == set()


def test_every_variable_has_values(watched: Watched) -> None:
    """What is chosen from at the top of a board is there, under its label."""
    for board in LIVE:
        for each in board.templating.list:
            if each.type != "query" or each.definition is None:
                continue
            asked = re.fullmatch(r"label_values\((\w+)\{.*\}, (\w+)\)", each.definition)
            assert asked is not None
            metric, label = asked.groups()
            found = watched.prometheus.get(
                f"label/{label}/values", **{"match[]": metric, "start": str(watched.window.start)}
            )
            assert any(found), (board.uid, each.name)


def test_rules_are_loaded_and_wait_for_series_that_are_there(watched: Watched) -> None:
    """Prometheus evaluates every rule without error, and no alert waits for a misspelt series."""
    groups = watched.prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {each.name for each in ALERTS} <= {rule["name"] for rule in rules}
    assert {rule["health"] for rule in rules} == {"ok"}
    at = watched.window.end
    for each in ALERTS:
        for name in metrics_of(each.expr):
            assert watched.prometheus.query(f"last_over_time({name}[10m])", at), (each.name, name)


def test_energy_a_token_is_what_the_package_used(watched: Watched) -> None:
    """Watts over tokens a second, as both counters have them."""
    used = watched.prometheus.value("sum(increase(mc_accel_energy_joules_total[5m]))")
    seconds = watched.window.end - watched.window.start
    assert 0.5 * seconds * WATTS < used < 1.5 * seconds * WATTS
    (series,) = watched.panel("tailbreak-server", "Energy a token")["A"]
    assert max(finite(series)) > 0


def test_alerts_of_what_is_broken_fire_and_no_others(watched: Watched) -> None:
    """The host with two rings loses a GPU, a link and has XIDs; the server is well."""
    for name in ("TailbreakGpuLost", "TailbreakGpuXid"):
        watched.prometheus.wait_for(f'ALERTS{{alertname="{name}", alertstate="firing"}}', 60)
    found = {
        series["metric"]["alertname"]
        for series in watched.prometheus.query('ALERTS{alertname=~"Tailbreak.*"}')
    }
    broken = {"TailbreakGpuLost", "TailbreakGpuXid", "TailbreakGpuThrottled", "TailbreakNvlinkDown"}
    late = {"TailbreakLoadGeneratorLate"}  # on a busy machine the load side may be
    assert broken <= found <= broken | late


def test_run_board_counts_what_was_recorded(watched: Watched) -> None:
    """Requests, plan, outcomes and the state of the load process, exactly."""
    rows = watched.rows
    assert watched.number("tailbreak-run", "Recorded and planned", "A") == len(rows) == 480
    assert watched.number("tailbreak-run", "Recorded and planned", "B") == N_PLANNED
    assert watched.number("tailbreak-run", "Load process") == 0
    (failed,) = watched.panel("tailbreak-run", "Failed share")["A"]
    assert set(finite(failed)) == {0}
    at = watched.panel("tailbreak-run", "Cell at work")["A"]
    assert {(s.labels["cell"], s.labels["path"]) for s in at} == {
        ("c00", "baseline"), ("c01", "accelerated"), ("c02", "baseline"), ("c03", "accelerated"),
    }  # fmt: skip


def test_run_board_quantiles_are_those_of_the_records(watched: Watched) -> None:
    """TTFT P99 of each path lies in the bucket of its order statistic; the ratio follows."""
    ttft_s = LATENCIES["ttft_s"](watched.rows)
    is_fast = watched.rows["cell"].isin(["c01", "c03"]).to_numpy()
    shown = {s.labels["path"]: last(s) for s in watched.panel("tailbreak-run", "TTFT by path")["A"]}
    for path, mine in (("baseline", ttft_s[~is_fast]), ("accelerated", ttft_s[is_fast])):
        wanted = sorted(mine)[-(-99 * len(mine) // 100) - 1]
        low, high = _bucket(wanted)
        assert low <= shown[path] <= high, path
    ratio = watched.number("tailbreak-run", "TTFT ratio")
    assert ratio == pytest.approx(shown["accelerated"] / shown["baseline"])


def _bucket(value: float) -> tuple[float, float]:
    """The bounds that a value lies between."""
    above = next(bound for bound in LATENCY_BUCKETS if value <= bound)
    below = [bound for bound in LATENCY_BUCKETS if bound < above]
    return (below[-1] if below else 0.0), above


def test_server_board_agrees_with_the_load_side(watched: Watched) -> None:
    """What was sent was served: requests by path, warm-up included, no error, the planted fault."""
    prom, at = watched.prometheus, watched.window.end
    for path in ("baseline", "accelerated"):
        served = prom.value(f'sum(mc_accel_requests_total{{path="{path}"}})', at)
        assert served >= N_PLANNED / 2
    assert watched.number("tailbreak-server", "Answers 5xx") == 0
    assert watched.number("tailbreak-server", "Pools that serve") == 1
    (fault,) = watched.panel("tailbreak-server", "Planted faults")["A"]
    assert (fault.labels["fault"], last(fault)) == ("store:1ms", 1.0)


def test_phases_on_the_server_board_add_up(watched: Watched) -> None:
    """The stacked phases are as high as the mean inference is long."""
    prom, at = watched.prometheus, watched.window.end
    phases = prom.value('sum(mc_accel_phase_duration_seconds_sum{path="baseline"})', at)
    whole = prom.value('sum(mc_accel_infer_duration_seconds_sum{path="baseline"})', at)
    assert phases == pytest.approx(whole, rel=0.01)


def test_gpu_board_shows_what_the_scenario_planted(watched: Watched) -> None:
    """One of eight GPUs lost, XIDs by code, throttling by reason, and what the old cannot tell."""
    prom, at = watched.prometheus, watched.window.end
    old = prom.value('count(mc_gpu_up{job="tailbreak-gpu-old"})', at)
    assert watched.number("tailbreak-gpu", "GPUs that answer", "B") == 8 + old
    assert watched.number("tailbreak-gpu", "GPUs that answer", "A") == 7 + old
    xids = {
        (s.labels["gpu"], s.labels["xid"]): last(s)
        for s in watched.panel("tailbreak-gpu", "XID errors by code")["A"]
    }
    assert xids[("3", "79")] == prom.value('mc_gpu_xid_errors_total{gpu="3",xid="79"}', at) > 0
    assert watched.number("tailbreak-gpu", "XID errors") == sum(xids.values())
    reasons = {
        (s.labels["gpu"], s.labels["reason"])
        for s in watched.panel("tailbreak-gpu", "Throttled")["A"]
    }
    assert ("2", "sw_power_cap") in reasons
    empty = watched.panel("tailbreak-gpu", "Why is a panel empty?")["A"]
    assert "mc_gpu_sm_active_ratio" in {s.labels["metric"] for s in empty}
    assert all(s.labels["reason"] for s in empty)


def test_a_ring_without_trouble_is_symmetric(watched: Watched) -> None:
    """Links of equal traffic stand at 1, whatever the traffic is; where none is, nothing stands."""
    links = watched.panel("tailbreak-gpu", "Asymmetry")["A"]
    typical = [statistics.median(values) for s in links if (values := finite(s))]
    assert len(typical) > 60
    assert statistics.median(typical) == pytest.approx(1, abs=0.05)


def test_check_and_picture_need_no_grafana(watched: Watched, tmp_path: Path) -> None:
    """The command names what is empty, and draws a board of real data."""
    url, at = watched.prometheus.url, watched.window
    range_ = f"{at.start:.3f}..{at.end:.3f}"
    out = tmp_path / "found.json"
    done = _do("check", "--prometheus", url, "--range", range_, "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["refused"] == found["problems"] == []
    boards = {where.partition(" ")[0] for where in found["empty"]}
    assert boards == {"tailbreak-nightly"}  # nothing was backfilled
    png = tmp_path / "gpu.png"
    done = _do("picture", "gpu", "--prometheus", url, "--range", range_, "--png", str(png))
    assert "0 empty" in done.stdout, done.stdout + done.stderr
    assert (imread(png)[..., :3].min(axis=2) < 0.5).mean() > 0.005  # ink


def _do(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command("dashboards", *arguments), capture_output=True, text=True, timeout=120, check=False
    )
