"""`tailbreak dashboards` from the command line, against Grafana's documented contract."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboards.render import render as rendered
from harness.base.errors import SetupError
from harness.cli.main import app
from tests.grafana_contract import TOKEN, Store, grafana


def _do(*arguments: str, token: str = TOKEN) -> Result:
    env = {"GRAFANA_TOKEN": token, "COLUMNS": "80"}
    result = CliRunner().invoke(app, ["dashboards", *arguments], env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("verb", ["render", "push", "check", "annotate", "picture"])
def test_help_fits_80_columns_and_has_an_example(verb: str) -> None:
    """No line is longer, and how it is called is shown."""
    shown = _do(verb, "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert f"tailbreak dashboards {verb}" in shown


def test_render_writes_what_the_builders_give(tmp_path: Path) -> None:
    """Every generated file is there and named on standard output."""
    shown = _do("render", "--out", str(tmp_path / "x")).stdout.splitlines()
    assert len(shown) == len(rendered())
    for name, text in rendered().items():
        assert (tmp_path / "x" / name).read_text() == text
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be written"):
        _do("render", "--out", str(tmp_path / "file" / "sub"))


@pytest.mark.parametrize("version", ["11.6.0", "13.0.0"])
def test_what_was_pushed_is_checked_against_the_builders(version: str, tmp_path: Path) -> None:
    """After a push nothing differs; a query that somebody changed there is named."""
    with grafana(store := Store(version)) as url:
        out = tmp_path / "pushed.json"
        shown = _do("push", "--url", url, "--datasource", "abc123", "--json", str(out)).stdout
        assert f"Grafana {version}" in shown
        assert len(json.loads(out.read_text())["boards"]) == len(store.boards) == 4
        variable = store.boards["tailbreak-run"]["dashboard"]["templating"]["list"][0]
        assert variable["current"]["value"] == "abc123"
        assert _do("check", "--url", url).exit_code == 0
        panel = store.boards["tailbreak-gpu"]["dashboard"]["panels"][1]
        panel["targets"][0]["expr"] = "vector(1)"
        del store.boards["tailbreak-server"]
        changed = _do("check", "--url", url)
        assert changed.exit_code == 2
        assert "wrong: tailbreak-gpu: " in changed.stdout
        assert "wrong: tailbreak-server: not in" in changed.stdout
        assert "tailbreak-run:" not in changed.stdout


def test_secrets_come_from_the_environment_only() -> None:
    """Without a token the variable is named; nothing is asked of anybody."""
    with grafana(store := Store()) as url, pytest.raises(SetupError, match="GRAFANA_TOKEN"):
        _do("push", "--url", url, token="")
    assert store.calls == []


def test_unknown_board_and_no_prometheus() -> None:
    """What is allowed is said, and a Prometheus that is not there is no trace."""
    wrong = _do("picture", "gpus")
    assert wrong.exit_code == 2
    assert "allowed run, server, gpu, nightly" in wrong.output
    with pytest.raises(SetupError, match="no Prometheus answers"):
        _do("check", "--prometheus", "http://127.0.0.1:1")
