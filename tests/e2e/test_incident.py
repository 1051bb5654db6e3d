"""An incident planted on the bundled server, scraped by a real Prometheus, found by the command.

The shape of a published one: more and longer searches for garbage, a store without connections,
errors, a tail five times as long. First cause, order, figures, link and replay are checked.
"""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.scenario.read import read_scenario
from tests.cli_process import command
from tests.planted_incident import serve
from tests.prometheus_process import Prometheus, needs_prometheus, prometheus

pytestmark = needs_prometheus
SECONDS = 15.0
FAULTS = "garbage:60MB/s,gc:190ms@1200ms,connections:700ms@1700ms,error:1/20"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A Prometheus that has seen the healthy server, then the faulty one at the same address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("incident")
    with prometheus(folder, {"server": f"127.0.0.1:{port}"}, scrape_s=0.5) as running:
        normal = serve(port, "", SECONDS)
        fault = serve(port, FAULTS, SECONDS)
        yield {
            "prometheus": running, "normal": normal.span, "fault": fault.span, "n_fault": fault.n,
            "n_prompt": normal.n_prompt,
        }  # fmt: skip


def _incident(watched: dict[str, Any], *more: str, **spans: tuple[float, float]) -> Any:
    """Run the command on two windows; its exit code and output are the caller's to judge."""
    windows = {"normal": watched["normal"], "fault": watched["fault"], **spans}
    named = [
        word
        for name, (start, end) in windows.items()
        for word in (f"--{name}", f"{start:.1f}..{end:.1f}")
    ]
    asked = ["incident", "--prometheus", watched["prometheus"].url, *named, *more]
    return subprocess.run(command(*asked), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def told(watched: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command says of the planted incident, in every form."""
    folder = tmp_path_factory.mktemp("told")
    files = {name: folder / f"{name}.out" for name in ("json", "markdown", "replay")}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    done = _incident(watched, *options, "--grafana", "http://grafana.test:3000/")
    assert done.returncode == 0, done.stderr
    return {
        "stdout": done.stdout,
        "found": json.loads(files["json"].read_text()),
        "markdown": files["markdown"].read_text(),
        "replay": files["replay"],
    }


def test_the_first_cause_is_what_was_planted_first_in_the_chain(told: dict[str, Any]) -> None:
    """Garbage; the longer searches follow from it, the errors from what else was planted."""
    found = told["found"]
    assert found["first_cause"] == "garbage"
    symptoms = {each["name"]: each for each in found["symptoms"]}
    assert {"gc_pauses", "store_exhausted", "errors_5xx"} <= set(symptoms)
    assert symptoms["gc_pauses"]["may_follow_from"] == ["garbage"]
    assert "store_exhausted" in symptoms["errors_5xx"]["may_follow_from"]
    assert told["stdout"].startswith("First cause: garbage.")
    assert "# Incident " in told["markdown"]


def test_the_figures_are_those_that_were_planted(told: dict[str, Any]) -> None:
    """Pauses of 190 ms, one answer in twenty a 5xx; a healthy time has neither."""
    symptoms = {each["name"]: each for each in told["found"]["symptoms"]}
    pause = symptoms["gc_pauses"]["evidence"][2]
    assert pause["value"] >= 0.178, "the lower edge of the bucket that holds 190 ms"
    assert pause["normal"] < pause["value"] / 3
    share = symptoms["errors_5xx"]["evidence"][0]
    assert share["value"] == pytest.approx(1 / 20, rel=0.6)
    assert share["normal"] == 0


def test_what_was_planted_is_among_the_changes(told: dict[str, Any]) -> None:
    """5xx from a level that never moved, as far as an effect goes; and a longer tail."""
    changes = {(e["name"], e["what"]): e for e in told["found"]["changes"]}
    errors = changes["mc_accel_5xx_total", "rate"]
    assert errors["normal"] == 0
    assert errors["fault"] is not None
    tail = changes["mc_accel_infer_duration_seconds", "p99"]
    assert tail["fault"] > tail["normal"]
    assert tail["effect"] > 0


def test_the_replay_has_the_load_of_the_fault(
    watched: dict[str, Any], told: dict[str, Any]
) -> None:
    """Rate as the clients counted it, lengths as they were asked for."""
    scenario = read_scenario(told["replay"])
    seconds = watched["fault"][1] - watched["fault"][0]
    assert scenario.load.rate_rps == pytest.approx(watched["n_fault"] / seconds, rel=0.3)
    assert scenario.output.tokens == 12
    assert scenario.axes.prompt_tokens == [watched["n_prompt"]]


def test_the_link_shows_the_fault_with_a_margin(
    watched: dict[str, Any], told: dict[str, Any]
) -> None:
    """A board's address with times in milliseconds; nothing is asked of the Grafana."""
    start, end = (round(each, 1) for each in watched["fault"])
    margin = (end - start) / 2
    expected = f"?from={round((start - margin) * 1e3)}&to={round((end + margin) * 1e3)}"
    assert told["found"]["link"].startswith("http://grafana.test:3000/d/tailbreak-server?")
    assert told["found"]["link"].endswith(expected)


def test_two_halves_of_the_healthy_time_show_nothing_that_was_planted(
    watched: dict[str, Any], tmp_path: Path
) -> None:
    """No garbage, pauses, store trouble or errors; a neighbour on the machine may slow the rest."""
    start, end = watched["normal"]
    middle = (start + end) / 2
    out = tmp_path / "i.json"
    done = _incident(watched, "--json", str(out), normal=(start, middle), fault=(middle, end))
    assert done.returncode == 0, done.stderr
    names = {each["name"] for each in json.loads(out.read_text())["symptoms"]}
    assert names.isdisjoint({"garbage", "gc_pauses", "store_exhausted", "errors_5xx"})


def test_what_cannot_be_compared_is_told(watched: dict[str, Any]) -> None:
    """A time of which Prometheus holds nothing, and an address where no Prometheus is."""
    empty = _incident(watched, fault=(1_000_000_000.0, 1_000_000_060.0))
    assert empty.returncode == 2
    assert "--fault: " in empty.stderr
    assert "holds no reading" in empty.stderr
    nobody = _incident(
        {**watched, "prometheus": Prometheus(url="http://127.0.0.1:9", folder=Path())}
    )
    assert nobody.returncode == 2
    assert "no Prometheus answers" in nobody.stderr
