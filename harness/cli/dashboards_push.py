"""`tailbreak dashboards push`: the boards into a running Grafana."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.base.api_key import read_api_key
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from harness.export.grafana import Grafana

TOKEN: Final = "GRAFANA_TOKEN"  # noqa: S105  the variable's name


def push(
    url: Annotated[
        str, typer.Option(help="Grafana's root, such as http://127.0.0.1:3000.", metavar="URL")
    ],
    folder: Annotated[
        str, typer.Option(help="Folder by its title; made where it is missing.", metavar="NAME")
    ] = "tailbreak",
    datasource: Annotated[
        str | None,
        typer.Option(
            help="The Prometheus that boards start with, by name or uid; else the default one.",
            metavar="NAME",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write what was kept, and where.", metavar="FILE")
    ] = None,
) -> None:
    """Publish the boards into a Grafana, over those of an earlier push.

    The token of a service account with the role Editor comes from the environment variable
    GRAFANA_TOKEN and is never shown. Boards are told apart by uid, so that links keep working.

    Exit codes: 0, or 2 with what Grafana said.

    Example: GRAFANA_TOKEN=glsa_... tailbreak dashboards push --url http://127.0.0.1:3000
    """
    from dashboards.boards import BOARDS

    check_folder("--json", json_file)
    grafana = connect(url)
    source = None if datasource is None else grafana.datasource(datasource)
    folder_uid = grafana.folder(folder)
    kept = [grafana.push(_with_source(each.to_json(), source), folder_uid) for each in BOARDS]
    print(f"Grafana {grafana.version} at {grafana.url}, folder {folder}")
    for each in kept:
        print(f"  {each.uid}  version {each.version}  {each.url}")
    if json_file is not None:
        boards = [{"uid": k.uid, "version": k.version, "url": k.url} for k in kept]
        value = {"schema": 1, "grafana": grafana.version, "folder": folder_uid, "boards": boards}
        json_file.write_text(json.dumps(value, indent=1) + "\n")


def connect(url: str) -> "Grafana":
    """The Grafana at an address, with the token of the environment."""
    from harness.export.grafana import Grafana

    return Grafana.connect(url, read_api_key(TOKEN, "--url"))


def _with_source(board: dict[str, Any], source: tuple[str, str] | None) -> dict[str, Any]:
    """The board that starts with this data source; its panels follow the variable."""
    if source is not None:
        uid, name = source
        (variable,) = (v for v in board["templating"]["list"] if v["name"] == "datasource")
        variable["current"] = {"text": name, "value": uid, "selected": True}
    return board
