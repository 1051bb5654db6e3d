"""Rules written from an SLO file: shares and alerts by hand, checked by promtool."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.base.errors import ScenarioError
from harness.export.slo_rules import render_rules, told_edges
from harness.scenario.slo import Slo, read_slo
from tests.prometheus_process import needs_prometheus, promtool

FILE = Path("scenarios/slo/chat.toml")
LABELS = {"team": "inference", "service": "chat", "objective": "first_token"}


def make_slo(**objective: Any) -> Slo:
    given = {"name": "x", "metric": "ttft_s", "limit_s": 0.5, "target": 0.99, **objective}
    return Slo.model_validate({"schema": 1, "service": "chat", "objectives": [given]})


def test_the_committed_rules_are_those_of_the_example() -> None:
    """`dashboards/rules/slo.yml` is what `tailbreak slo rules` writes."""
    assert Path("dashboards/rules/slo.yml").read_text(encoding="utf-8") == render_rules(
        read_slo(FILE)
    )


@needs_prometheus
def test_promtool_accepts_the_rules() -> None:
    """8 shares, what is left of the budget and 2 alerts for each of three objectives."""
    checked = promtool("check", "rules", "dashboards/rules/slo.yml")
    assert checked.returncode == 0, checked.stderr
    assert "33 rules found" in checked.stdout


def _series(good: str, count: str) -> list[dict[str, str]]:
    name = "mc_accel_ttft_seconds"
    return [
        {"series": f'{name}_bucket{{path="baseline",le="0.5"}}', "values": good},
        {"series": f'{name}_count{{path="baseline"}}', "values": count},
    ]


def _alert(name: str, at: str, severity: str, bad: str | None) -> dict[str, Any]:
    expected = [] if bad is None else [{
        "exp_labels": {**LABELS, "severity": severity},
        "exp_annotations": {
            "summary": "chat: the budget of first_token burns",
            "description": (
                f"Promised: 0.99 of the requests within 0.5 s over 30d. Bad now: {bad}. Compare "
                "with a normal hour: tailbreak incident --normal T0..T1 --fault T2..T3 "
                "--prometheus URL"
            ),
        },
    }]  # fmt: skip
    return {"eval_time": at, "alertname": name, "exp_alerts": expected}


@needs_prometheus
def test_alerts_fire_at_the_burn_rates_that_are_promised(tmp_path: Path) -> None:
    """20 % bad burns 20 budgets: a page. 5 % burns 5: a ticket. 0.5 % burns half of one: neither.

    After an hour without a bad request the five minutes are clean, and the page is over.
    """
    fast, slow = "SloBudgetBurnsFast", "SloBudgetBurnsSlowly"
    cases = [
        (_series("0+80x120", "0+100x120"), [
            _alert(fast, "2h", "page", "20%"), _alert(slow, "2h", "ticket", "20%"),
        ], 0.2),
        (_series("0+95x120", "0+100x120"), [
            _alert(fast, "2h", "page", None), _alert(slow, "2h", "ticket", "5%"),
        ], 0.05),
        (_series("0+995x120", "0+1000x120"), [
            _alert(fast, "2h", "page", None), _alert(slow, "2h", "ticket", None),
        ], 0.005),
        (_series("0+80x60 4900+100x60", "0+100x60 6100+100x60"), [
            _alert(fast, "1h", "page", "20%"), _alert(fast, "2h", "page", None),
        ], 0.0),
    ]  # fmt: skip
    text = '{objective="first_token",service="chat",team="inference"}'
    tests = [
        {
            "interval": "1m", "input_series": series, "alert_rule_test": alerts,
            "promql_expr_test": [{
                "expr": f"round(service:mc_slo_bad:ratio_rate5m{text}, 0.0001)", "eval_time": "2h",
                "exp_samples": [{"labels": text, "value": bad}],
            }],
        }
        for series, alerts, bad in cases
    ]  # fmt: skip
    file = tmp_path / "test.yml"
    rules = str(Path("dashboards/rules/slo.yml").resolve())
    file.write_text(json.dumps({
        "rule_files": [rules], "evaluation_interval": "1m", "tests": tests,
    }))  # fmt: skip
    checked = promtool("test", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_prometheus
def test_no_request_is_no_alert(tmp_path: Path) -> None:
    """A service that nobody asks has no share of bad requests, neither zero nor all."""
    tests = [{
        "interval": "1m", "input_series": _series("7+0x120", "9+0x120"),
        "alert_rule_test": [_alert("SloBudgetBurnsFast", "2h", "page", None)],
    }]  # fmt: skip
    file = tmp_path / "test.yml"
    rules = str(Path("dashboards/rules/slo.yml").resolve())
    file.write_text(json.dumps({"rule_files": [rules], "tests": tests}))
    checked = promtool("test", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_limit_between_two_edges_is_counted_by_the_lower_one_and_told() -> None:
    """0.45 s is counted by the edge at 0.422 s, which is stricter."""
    slo = make_slo(limit_s=0.45)
    assert 'le="0.422"' in render_rules(slo).replace('\\"', '"')
    assert told_edges(slo) == [
        "x: 0.45 s is no bucket edge; counted by 0.422 s, the edge below, which is stricter"
    ]
    assert told_edges(make_slo()) == []


def test_a_limit_beyond_the_histogram_is_refused() -> None:
    """No bucket can tell 200 s from 300 s."""
    with pytest.raises(ScenarioError, match="no edge beyond"):
        render_rules(make_slo(limit_s=200.0))


def test_an_alert_that_could_never_fire_is_left_out_and_told() -> None:
    """With 90 % promised a burn rate of 14.4 would need 144 % of the requests to be bad."""
    slo = make_slo(target=0.9)
    text = render_rules(slo)
    assert "1.44" not in text
    (told,) = told_edges(slo)
    assert told.startswith("x: no alert at burn rate 14.4: with a target of 0.9 not even failing")


def test_load_side_objectives_select_their_service() -> None:
    """The load side's series carry the service; the server's do not."""
    assert 'mc_load_ttft_seconds_count{service="chat"}' in render_rules(
        make_slo(source="load")
    ).replace('\\"', '"')
    assert "mc_accel_ttft_seconds_count[" in render_rules(make_slo())
