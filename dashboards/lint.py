"""What a board must keep to, checked on its JSON: each rule gives problems, one sentence each.

The fifteen rules of Grafana's dashboard-linter for Prometheus (by its names), and ours: places,
numbers, sources, known panels and metrics. An exception is written down with its reason.
Options that nobody knows are refused before, by `dashboards.model`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, Final

from pydantic import ValidationError

from dashboards.metric_names import KNOWN, counters, metrics_of
from dashboards.model import Board

Json = dict[str, Any]
Rule = Callable[[Json], Iterator[str]]
ALLOWED_PANELS: Final = {"row", "timeseries", "stat", "heatmap", "table", "state-timeline"}
EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("tailbreak-nightly", "template-job"): "what is backfilled was never scraped",
    ("tailbreak-nightly", "template-instance"): "what is backfilled was never scraped",
    ("tailbreak-nightly", "target-job"): "what is backfilled was never scraped",
    ("tailbreak-nightly", "target-instance"): "what is backfilled was never scraped",
    ("tailbreak-gpu XID errors", "target-counter-agg"): "the count itself is meant",
    ("tailbreak-gpu XID errors by code", "target-counter-agg"): "the count itself is meant",
    ("tailbreak-gpu Events", "target-counter-agg"): "the count itself is meant",
}


def lint(text: str) -> list[str]:
    """Every problem of a board's JSON text."""
    if re.search(r"^(<{7}|={7}|>{7})", text, re.MULTILINE):
        return ["a merge left its marks"]
    try:
        board = json.loads(text)
        Board.model_validate(board)
    except ValidationError as error:
        return [
            f"unknown or wrong: {'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors()
        ]
    except ValueError as error:
        return [f"no JSON: {error}"]
    found = []
    for name, rule in RULES.items():
        found += [
            f"{name}: {problem}" for problem in rule(board) if not _is_excepted(name, problem)
        ]
    return found


def _is_excepted(rule: str, problem: str) -> bool:
    return any(
        rule == name and problem.startswith((f"{where}:", f"{where} "))
        for where, name in EXCEPTIONS
    )


def panels(board: Json) -> list[Json]:
    """Panels that show something, without rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def _where(board: Json, panel: Json | None = None) -> str:
    return f"{board['uid']} {panel['title']}" if panel else str(board["uid"])


def _variables(board: Json) -> dict[str, Json]:
    return {each["name"]: each for each in board["templating"]["list"]}


def _template_datasource(board: Json) -> Iterator[str]:
    if _variables(board).get("datasource", {}).get("query") != "prometheus":
        yield f"{_where(board)}: no variable `datasource` of Prometheus"


def _template(name: str) -> Rule:
    def rule(board: Json) -> Iterator[str]:
        found = _variables(board).get(name)
        if found is None:
            yield f"{_where(board)}: no variable `{name}`"
        elif not (found["multi"] and found["includeAll"] and found.get("allValue")):
            yield f"{_where(board)}: `{name}` does not allow several and all"

    return rule


def _template_reload(board: Json) -> Iterator[str]:
    for name, each in _variables(board).items():
        if each["type"] == "query" and each.get("refresh") != 2:
            yield f"{_where(board)}: `{name}` is not read again when the time changes"


def _template_labels(board: Json) -> Iterator[str]:
    for name, each in _variables(board).items():
        if each["type"] != "query":
            continue
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", each["query"]["query"])
        if asked is None or asked.group(2) != name or not metrics_of(asked.group(1)) <= KNOWN:
            yield f"{_where(board)}: `{name}` asks {each['query']['query']!r}"


def _datasource(board: Json) -> Iterator[str]:
    for panel in panels(board):
        for part in (panel, *panel["targets"]):
            if part["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                yield f"{_where(board, panel)}: a fixed data source"


def _described(board: Json) -> Iterator[str]:
    for panel in panels(board):
        if not panel["title"] or "`" not in panel["description"]:
            yield f"{_where(board, panel)}: no title, or no description that names a metric"


def _units(board: Json) -> Iterator[str]:
    for panel in panels(board):
        if not panel["fieldConfig"]["defaults"]["unit"]:
            yield f"{_where(board, panel)}: no unit"


def _has_targets(board: Json) -> Iterator[str]:
    for panel in panels(board):
        if not panel["targets"]:
            yield f"{_where(board, panel)}: asks nothing"


def _each_expr(board: Json) -> Iterator[tuple[str, str]]:
    for panel in panels(board):
        for target in panel["targets"]:
            yield _where(board, panel), target["expr"]


def _known_metrics(board: Json) -> Iterator[str]:
    for where, expr in _each_expr(board):
        for name in sorted(metrics_of(expr) - KNOWN):
            yield f"{where}: {name} is in no catalogue"
        if not metrics_of(expr):
            yield f"{where}: names no metric"


def _known_variables(board: Json) -> Iterator[str]:
    known = {*_variables(board), "__rate_interval", "__range", "__interval"}
    for where, expr in _each_expr(board):
        for name in sorted(set(re.findall(r"\$\{?(\w+)", expr)) - known):
            yield f"{where}: no variable `{name}`"


def _rate_interval(board: Json) -> Iterator[str]:
    """Over a fixed window a rate is empty or blurred at other scrape intervals."""
    for where, expr in _each_expr(board):
        for window in re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", expr):
            if window not in {"$__rate_interval", "$__range"}:
                yield f"{where}: a rate over {window}"


def _matched(label: str) -> Rule:
    def rule(board: Json) -> Iterator[str]:
        for where, expr in _each_expr(board):
            if any(f'{label}=~"${label}"' not in each for each in _selectors(expr)):
                yield f"{where}: a selector without {label}"

    return rule


def _selectors(expr: str) -> list[str]:
    return re.findall(r"\{[^}]*\}", expr) or [""]


def _counters(board: Json) -> Iterator[str]:
    """A counter's value says how long its process has lived; only its growth says anything.

    `last_over_time` is an answer too: everything so far, asked on purpose.
    """
    for where, expr in _each_expr(board):
        grown = re.sub(r"(?:rate|increase|last_over_time)\([^\[]*\[[^\]]+\]\)", "", expr)
        for name in sorted(metrics_of(grown) & counters()):
            yield f"{where}: {name} without rate or increase"


def _uneditable(board: Json) -> Iterator[str]:
    if board["editable"]:
        yield f"{_where(board)}: can be edited, and the change is lost at the next push"


def _grid(board: Json) -> Iterator[str]:
    places = [(p["title"], p["gridPos"]) for p in board["panels"]]
    for title, at in places:
        if at["x"] + at["w"] > 24:
            yield f"{_where(board)} {title}: outside of 24 columns"
    for (one, a), (other, b) in combinations(places, 2):
        across = a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"]
        down = a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]
        if across and down:
            yield f"{_where(board)}: {one} lies on {other}"


def _numbers(board: Json) -> Iterator[str]:
    ids = [panel["id"] for panel in board["panels"]]
    if len(ids) != len(set(ids)):
        yield f"{_where(board)}: two panels of one number"
    for panel in panels(board):
        refs = [target["refId"] for target in panel["targets"]]
        if len(refs) != len(set(refs)):
            yield f"{_where(board, panel)}: two queries of one letter"


def _identity(board: Json) -> Iterator[str]:
    if board["id"] is not None or not board["uid"].startswith("tailbreak-"):
        yield f"{_where(board)}: an id of its own would overwrite a stranger's board"
    if "tailbreak" not in board["tags"] or not board["links"]:
        yield f"{_where(board)}: no tag or no links to the other boards"


def _known_panels(board: Json) -> Iterator[str]:
    for panel in board["panels"]:
        if panel["type"] not in ALLOWED_PANELS:
            yield f"{_where(board, panel)}: {panel['type']} is not among the allowed panels"


def _legends(board: Json) -> Iterator[str]:
    for panel in panels(board):
        if panel["type"] == "timeseries" and not panel["options"]["legend"]["showLegend"]:
            yield f"{_where(board, panel)}: no legend"
        if panel["type"] == "timeseries" and not all(t["legendFormat"] for t in panel["targets"]):
            yield f"{_where(board, panel)}: a series without a name"


RULES: Final[dict[str, Rule]] = {
    "template-datasource": _template_datasource,
    "template-job": _template("job"),
    "template-instance": _template("instance"),
    "template-label-promql": _template_labels,
    "template-on-time-change-reload": _template_reload,
    "panel-datasource": _datasource,
    "panel-title-description": _described,
    "panel-units": _units,
    "panel-no-targets": _has_targets,
    "target-promql": _known_metrics,
    "target-variables": _known_variables,
    "target-rate-interval": _rate_interval,
    "target-job": _matched("job"),
    "target-instance": _matched("instance"),
    "target-counter-agg": _counters,
    "uneditable-dashboard": _uneditable,
    "grid": _grid,
    "numbers": _numbers,
    "identity": _identity,
    "allowed-panels": _known_panels,
    "legends": _legends,
}
