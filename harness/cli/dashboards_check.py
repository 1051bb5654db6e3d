"""`tailbreak dashboards check`: are the boards well made, current, fed, and what Grafana has?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.base.errors import ExitCode, SetupError
from harness.cli.dashboards_push import connect
from harness.cli.dashboards_range import RANGE, board_window
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from harness.export.grafana import Grafana
    from harness.importers.prometheus_api import PrometheusApi

OWN: Final = frozenset({"id", "version", "schemaVersion"})
"""What a Grafana sets by itself."""


def check(
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Ask every query of a Prometheus, and name what is empty.", metavar="URL"
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Compare with what is in a Grafana (GRAFANA_TOKEN).", metavar="URL"),
    ] = None,
    range_: RANGE = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything found.", metavar="FILE")
    ] = None,
) -> None:
    """Check the boards: their rules, their files, their data, and a Grafana's copy.

    An empty query is named and is no failure: a machine without GPU has no GPU series.

    Exit codes: 0, or 2 where a board breaks a rule, a file is not current, a query is refused, or a
    Grafana holds something else.

    Example: tailbreak dashboards check

    Example: tailbreak dashboards check --prometheus http://127.0.0.1:9090
    """
    from dashboards.lint import lint
    from dashboards.render import drift, render

    check_folder("--json", json_file)
    boards = {name: text for name, text in render().items() if name.startswith("rendered/")}
    problems = [problem for text in boards.values() for problem in lint(text)]
    problems += drift()
    parsed = [json.loads(text) for text in boards.values()]
    print(f"{len(parsed)} boards, {sum(len(b['panels']) for b in parsed)} panels")
    asked, empty, refused = _fed(parsed, prometheus, range_)
    if url is not None:
        problems += _pushed(parsed, connect(url))
    for problem in [*problems, *refused]:
        print(f"wrong: {problem}")
    if json_file is not None:
        value = {
            "schema": 1, "problems": problems, "n_queries": asked, "empty": empty,
            "refused": refused,
        }  # fmt: skip
        json_file.write_text(json.dumps(value, indent=1) + "\n")
    raise typer.Exit(int(ExitCode.INPUT_OR_SETUP if problems or refused else ExitCode.PASS))


def _fed(
    boards: list[dict[str, Any]], prometheus: str | None, range_: str | None
) -> tuple[int, list[str], list[str]]:
    """How many queries were asked, which gave nothing, and which were refused."""
    if prometheus is None:
        return 0, [], []
    from harness.importers.prometheus_api import PrometheusApi

    api = PrometheusApi(prometheus)
    api.query("vector(1)")
    empty: list[str] = []
    refused: list[str] = []
    n_asked = 0
    for board in boards:
        for where, outcome in _asked(board, api, range_):
            n_asked += 1
            if isinstance(outcome, SetupError):
                refused.append(f"{where}: {outcome}")
            elif not outcome:
                empty.append(where)
    print(f"{n_asked} queries asked, {len(empty)} empty")
    for where in empty:
        print(f"empty: {where}")
    return n_asked, empty, refused


def _asked(
    board: dict[str, Any], api: "PrometheusApi", range_: str | None
) -> Iterator[tuple[str, list[Any] | SetupError]]:
    from harness.cli.dashboards_range import ask_of
    from harness.export.board_queries import queries_of

    window = board_window(board, range_)
    for each in queries_of(board, window):
        where = f"{board['uid']} {each.title} {each.ref}"
        try:
            yield where, list(ask_of(api, window)(each))
        except SetupError as error:
            yield where, error


def _pushed(boards: list[dict[str, Any]], grafana: "Grafana") -> list[str]:
    """Where a Grafana holds something else than what would be pushed."""
    problems = []
    for board in boards:
        kept = grafana.board(board["uid"])
        if kept is None:
            problems.append(f"{board['uid']}: not in {grafana.url}; push it")
            continue
        theirs = _essence(kept) if _is_newer(kept) else _whole(kept, board)
        ours = _essence(board) if _is_newer(kept) else _whole(board, board)
        changed = sorted(key for key, value in ours.items() if theirs.get(key) != value)
        if changed:
            problems.append(f"{board['uid']}: {', '.join(changed)} differ in {grafana.url}")
    print(f"Grafana {grafana.version}: {len(boards)} boards compared")
    return problems


def _is_newer(kept: dict[str, Any]) -> bool:
    """Whether a newer Grafana has carried the board over to a schema of its own."""
    from dashboards.model import Board

    return bool(kept.get("schemaVersion") != Board.model_fields["schema_version"].default)


def _whole(board: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Every key of the board that we set, but for the data source that a push may have chosen."""
    value = {key: board.get(key) for key in wanted if key not in OWN}
    variables = (board.get("templating") or {}).get("list") or []
    value["templating"] = [
        {key: each[key] for key in each if key != "current" or each.get("name") != "datasource"}
        for each in variables
    ]
    return value


def _essence(board: dict[str, Any]) -> dict[str, Any]:
    """What of a board no schema changes: its panels' titles, kinds and queries."""
    return {
        f"panel {panel.get('title')!r}": (
            panel.get("type"),
            [target.get("expr") for target in panel.get("targets") or ()],
        )
        for panel in board.get("panels") or ()
    }
