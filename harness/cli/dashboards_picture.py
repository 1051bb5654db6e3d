"""`tailbreak dashboards picture`: a board with its data as a PNG, without a Grafana."""

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.base.errors import SetupError
from harness.cli.dashboards_range import RANGE, ask_of, board_window
from harness.cli.result_file import check_folder


def picture(
    board: Annotated[str, typer.Argument(help="run, server, gpu or nightly.")],
    prometheus: Annotated[
        str, typer.Option(help="The Prometheus to ask.", metavar="URL")
    ] = "http://127.0.0.1:9090",
    png: Annotated[
        Path | None, typer.Option(help="File to write; BOARD.png without.", metavar="FILE")
    ] = None,
    range_: RANGE = None,
) -> None:
    """Draw a board with what a Prometheus gives now, as one picture.

    Panels, queries and places are those that Grafana shows; needs no Grafana.

    Example: tailbreak dashboards picture run --png run.png --range -5m..now
    """
    chosen = _board(board)
    path = png or Path(f"{board}.png")
    check_folder("--png", path)
    window = board_window(chosen, range_)

    from harness.export.board_picture import write_picture
    from harness.export.board_queries import answers_of
    from harness.importers.prometheus_api import PrometheusApi

    answers = answers_of(chosen, window, ask_of(PrometheusApi(prometheus), window))
    n_empty = sum(not series for series in answers.values())
    try:
        write_picture(chosen, answers, window, path)
    except OSError as error:
        raise SetupError(f"--png {path}: cannot be written: {error.strerror}") from error
    print(f"{path}: {len(answers)} queries, {n_empty} empty")


def _board(name: str) -> dict[str, Any]:
    from dashboards.boards import BOARDS

    known = {board.uid.removeprefix("tailbreak-"): board for board in BOARDS}
    if name not in known:
        raise typer.BadParameter(f"got {name[:40]!r}, allowed {', '.join(known)}")
    return known[name].to_json()
