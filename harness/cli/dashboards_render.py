"""`tailbreak dashboards render`: boards, alerts and provisioning as files."""

from pathlib import Path
from typing import Annotated

import typer

from harness.base.errors import SetupError


def render(
    out: Annotated[
        Path, typer.Option(help="Folder to write into; made where it is missing.", metavar="DIR")
    ] = Path("dashboards"),
) -> None:
    """Write boards, alerts, provisioning and an example of a Prometheus into a folder.

    It holds what a Grafana and a Prometheus read at their start (docs/dashboards.md), and a compose
    file that starts both on loopback.

    Example: tailbreak dashboards render --out watch
    """
    from dashboards.render import write

    try:
        written = write(out)
    except OSError as error:
        raise SetupError(f"--out {out}: cannot be written: {error.strerror}") from error
    for path in written:
        print(path)
