"""Alerts, and the files that a Prometheus and a Grafana read beside the boards."""

import json
import re
from pathlib import Path

import yaml

from dashboards.alerts import ALERTS, grafana_rules
from dashboards.metric_names import KNOWN, metrics_of
from dashboards.render import DATASOURCE_UID, HERE
from tests.prometheus_process import needs_prometheus, promtool

SYNTHETIC = {"up"}
"""What Prometheus itself makes."""


@needs_prometheus
def test_prometheus_accepts_configuration_and_rules() -> None:
    """By promtool: it finds nothing wrong with the example, and with every rule it loads."""
    done = promtool("check", "config", str(HERE / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@needs_prometheus
def test_alerts_fire_when_they_should_and_only_then() -> None:
    """Hand-made series, one alert after another: when it fires, for whom, and when it is silent."""
    cases = Path(__file__).with_name("alerts_test.yml")
    done = promtool("test", "rules", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    tried = set(re.findall(r"alertname: (\w+)", cases.read_text()))
    assert tried == {each.name for each in ALERTS}


def test_alerts_name_metrics_of_the_catalogue() -> None:
    """No alert waits for a series that nobody exposes."""
    for each in ALERTS:
        assert metrics_of(each.expr) <= KNOWN | SYNTHETIC, each.name


def test_grafana_and_prometheus_alert_alike() -> None:
    """Grafana's rules hold the same expressions, and ask the provisioned source by its uid."""
    (group,) = grafana_rules(DATASOURCE_UID)["groups"]
    assert [rule["title"] for rule in group["rules"]] == [each.name for each in ALERTS]
    for rule, each in zip(group["rules"], ALERTS, strict=True):
        asked, above = rule["data"]
        assert each.expr in asked["model"]["expr"]
        assert asked["datasourceUid"] == DATASOURCE_UID
        assert above["model"]["expression"] == asked["refId"]
        assert rule["condition"] == above["refId"]
        assert len(rule["uid"]) <= 40
    assert len({rule["uid"] for rule in group["rules"]}) == len(ALERTS)


def test_provisioning_files_agree() -> None:
    """Folder, uid, scrape interval and ports are the same in every file that names them."""
    (source,) = yaml.safe_load((HERE / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    config = yaml.safe_load((HERE / "prometheus.yml").read_text())
    (provider,) = yaml.safe_load((HERE / "provisioning/dashboards/tailbreak.yml").read_text())[
        "providers"
    ]
    compose = yaml.safe_load((HERE / "compose.yml").read_text())["services"]
    assert source["uid"] == DATASOURCE_UID
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    assert (
        f"--web.listen-address={source['url'].removeprefix('http://')}"
        in (compose["prometheus"]["command"])
    )
    assert provider["options"]["path"] == "/etc/tailbreak/rendered"
    assert any(volume.startswith(".:/etc/tailbreak") for volume in compose["grafana"]["volumes"])


def test_examples_listen_on_loopback_only() -> None:
    """Nothing in the examples opens a port to the network, and no secret is written in them."""
    compose = (HERE / "compose.yml").read_text()
    assert "0.0.0.0" not in compose
    assert "ports:" not in compose
    assert "127.0.0.1:9090" in compose
    assert "GF_SERVER_HTTP_ADDR: 127.0.0.1" in compose
    assert "${GRAFANA_PASSWORD:?" in compose


def test_committed_alerting_file_is_json() -> None:
    """Grafana reads provisioning files by their suffix."""
    path = HERE / "provisioning/alerting/tailbreak.json"
    assert json.loads(path.read_text())["apiVersion"] == 1


def test_the_example_objective_alerts_on_request_only() -> None:
    """Of the rules only the general ones are loaded: a deliberate overload pages nobody."""
    config = yaml.safe_load((HERE / "prometheus.yml").read_text())
    assert config["rule_files"] == ["rules/alerts.yml"]
