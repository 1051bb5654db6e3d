"""The boards that are committed: current, clean, and named after the catalogue."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboards import lint
from dashboards.boards import BOARDS
from dashboards.boards.run import S as RUN
from dashboards.metric_names import KNOWN, metrics_of
from dashboards.render import HERE, drift, render, write
from harness.metrics.catalogue import load, server
from tests.golden_file import require_golden

FILES = {board.uid: HERE / "rendered" / f"{board.uid}.json" for board in BOARDS}


@pytest.mark.parametrize("name", sorted(render()))
def test_what_is_committed_is_what_is_built(name: str) -> None:
    """Each rendered file holds exactly what its builder gives."""
    require_golden(HERE / name, render()[name])


def test_nothing_else_lies_among_the_rendered() -> None:
    """A board whose builder is gone does not stay behind."""
    assert drift() == []


@pytest.mark.parametrize("uid", sorted(FILES))
def test_boards_keep_every_rule(uid: str) -> None:
    """No rule of the linter has anything to say."""
    assert lint.lint(FILES[uid].read_text()) == []


def test_each_exception_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that excuses nothing is taken out of the list."""
    excused = set(lint.EXCEPTIONS)
    monkeypatch.setattr(lint, "EXCEPTIONS", {})
    problems = [text for path in FILES.values() for text in lint.lint(path.read_text())]
    for where, rule in excused:
        assert any(text.startswith(f"{rule}: {where}") for text in problems), (where, rule)


def test_first_row_of_run_asks_whether_to_believe_it() -> None:
    """Validity stands first, before any latency."""
    run = json.loads(FILES["tailbreak-run"].read_text())
    assert run["panels"][0]["title"] == "Is this measurement valid?"


def _panel(board: dict[str, Any], title: str) -> Any:
    return next(p for p in board["panels"] if p["title"] == title)


def _set(*path: Any, to: Any, panel: str = "Dispatch lag") -> Callable[[dict[str, Any]], None]:
    def damage(board: dict[str, Any]) -> None:
        part = _panel(board, panel)
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return damage


def _drop_variable(name: str) -> Callable[[dict[str, Any]], None]:
    def damage(board: dict[str, Any]) -> None:
        kept = [each for each in board["templating"]["list"] if each["name"] != name]
        board["templating"]["list"] = kept

    return damage


def _set_variable(name: str, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def damage(board: dict[str, Any]) -> None:
        (found,) = (each for each in board["templating"]["list"] if each["name"] == name)
        found[key] = value

    return damage


EXPR = ("targets", 0, "expr")
ALL = '{job=~"$job",instance=~"$instance"}'
DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "template-datasource": _drop_variable("datasource"),
    "template-job": _set_variable("job", "multi", value=False),
    "template-instance": _drop_variable("instance"),
    "template-label-promql": _set_variable("cell", "query", {"query": "label_values(nope, cell)"}),
    "template-on-time-change-reload": _set_variable("cell", "refresh", 1),
    "panel-title-description": _set("description", to="Looks nice."),
    "panel-units": _set("fieldConfig", "defaults", "unit", to=""),
    "panel-no-targets": _set("targets", to=[]),
    "target-promql": _set(*EXPR, to=f"sum (mc_load_requests{ALL})"),
    "target-variables": _set(
        *EXPR, to='sum (mc_load_up{job=~"$job",instance=~"$instance",a="$b"})'
    ),
    "target-rate-interval": _set(*EXPR, to=f"rate(mc_load_requests_total{ALL}[1m])"),
    "target-job": _set(*EXPR, to='max (mc_load_up{instance=~"$instance"})'),
    "target-instance": _set(*EXPR, to='max (mc_load_up{job=~"$job"})'),
    "target-counter-agg": _set(*EXPR, to=f"max (mc_load_requests_total{ALL})"),
    "grid": _set("gridPos", "x", to=20),
    "numbers": _set("id", to=1),
    "identity": lambda board: board.update(links=[]),
    "legends": _set("targets", 0, "legendFormat", to=""),
}
REFUSED_BEFORE = {"panel-datasource", "uneditable-dashboard", "allowed-panels"}
"""What the closed models do not even let through."""


@pytest.mark.parametrize("rule", sorted(DAMAGES))
def test_each_rule_sees_its_damage(rule: str) -> None:
    """A board damaged in one way is refused by the rule for it."""
    board = json.loads(FILES["tailbreak-run"].read_text())
    DAMAGES[rule](board)
    assert rule in {problem.partition(":")[0] for problem in lint.lint(json.dumps(board))}


def test_every_rule_was_tried() -> None:
    """Each rule is either damaged above or refused by the models below."""
    assert set(lint.RULES) == set(DAMAGES) | REFUSED_BEFORE


@pytest.mark.parametrize(
    "damage",
    [
        _set("fieldConfig", "defaults", "custom", "spanNull", to=True),
        _set("options", "legends", to={}),
        _set("spanNulls", to=True),
        _set("type", to="graph"),
        _set("datasource", "uid", to="PBFA97CFB590B2093"),
        _set("targets", 0, "datasource", "uid", to="PBFA97CFB590B2093"),
        lambda board: board.update(id=7),
        lambda board: board.update(editable=True),
        lambda board: board.update(__inputs=[]),
    ],
)
def test_unknown_options_are_refused(damage: Callable[[dict[str, Any]], None]) -> None:
    """What Grafana would ignore in silence, or would overwrite a stranger with, is named."""
    board = json.loads(FILES["tailbreak-run"].read_text())
    damage(board)
    (first, *_) = lint.lint(json.dumps(board))
    assert first.startswith("unknown or wrong: ")


def test_text_that_is_no_board_is_refused() -> None:
    """Merge marks, and what is no JSON."""
    text = FILES["tailbreak-run"].read_text()
    assert lint.lint(text.replace(' "title"', '<<<<<<< HEAD\n "title"', 1)) == [
        "a merge left its marks"
    ]
    assert lint.lint(text[:-10])[0].startswith("no JSON")


def test_selectors_carry_the_choices_that_a_metric_knows() -> None:
    """Variables that are labels of the metric are matched, others are not."""
    assert RUN.select(load.RUN_UP) == 'mc_load_up{job=~"$job",instance=~"$instance"}'
    assert 'cell=~"$cell"' in RUN.select(load.LOAD_TTFT, "_bucket")


def test_a_label_that_a_metric_has_not_is_refused() -> None:
    """A matcher or a grouping by a label of another metric never reaches a board."""
    with pytest.raises(AssertionError, match="has no label"):
        RUN.select(load.RUN_UP, cell="c00")
    with pytest.raises(AssertionError, match="has no label"):
        RUN.rate(server.REQUESTS, ("cell",))
    with pytest.raises(AssertionError, match="is a counter"):
        RUN.quantile("0.99", server.REQUESTS)


@pytest.mark.parametrize(
    ("expr", "names"),
    [
        ('histogram_quantile(0.9, sum by (le) (rate(a_bucket{x=~"b|c"}[5m])))', {"a_bucket"}),
        ("a / on (gpu) group_left (uuid) avg(b)", {"a", "b"}),
        ("1 - sum(a offset 5m) > bool 0.5 or vector(0)", {"a"}),
        ('label_replace(a, "x", "nope", "y", "(.*)") unless vllm:b', {"a", "vllm:b"}),
    ],
)  # fmt: skip
def test_names_in_promql_are_found(expr: str, names: set[str]) -> None:
    """Functions, labels, strings, durations and words of the language are no metrics."""
    assert metrics_of(expr) == names


def test_readable_names_are_of_the_catalogue() -> None:
    """Every metric a description names exists, so that a reader can look for it."""
    histograms = {name.removesuffix("_count") for name in KNOWN if name.endswith("_count")}
    for path in FILES.values():
        for panel in lint.panels(json.loads(path.read_text())):
            named = set(re.findall(r"`((?:mc|gpu|locust)_\w+)`", panel["description"]))
            assert named
            assert named <= KNOWN | histograms, panel["title"]


def test_the_whole_tree_can_be_written_elsewhere(tmp_path: Path) -> None:
    """Boards, rules, provisioning and examples land in a folder, equal to those committed."""
    write(tmp_path / "new")
    assert drift(tmp_path / "new") == []
    for name in ("prometheus.yml", "compose.yml", "provisioning/dashboards/tailbreak.yml"):
        assert (tmp_path / "new" / name).read_text() == (HERE / name).read_text()
    (tmp_path / "new" / "rendered" / "tailbreak-run.json").write_text("{}")
    (tmp_path / "new" / "rendered" / "old.json").write_text("{}")
    assert drift(tmp_path / "new") == [
        "rendered/tailbreak-run.json: not what the builders give",
        "rendered/old.json: no builder makes it",
    ]
