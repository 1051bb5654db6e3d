"""`tailbreak topology`: how this machine's GPUs are connected."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import SetupError

if TYPE_CHECKING:
    from harness.records.run import RunFolder
    from harness.records.topology import Pair, Topology


def topology(
    *,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Write the topology, as `tailbreak split` reads it.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Show how the GPUs of this machine are connected: NVLinks between each two, PCIe paths.

    A run keeps the same as topology.json in its folder.

    Example: tailbreak topology --json topology.json
    """
    from harness.cli.result_file import check_folder
    from harness.records.topology import topology_json

    check_folder("--json", json_file)
    found = live_topology()
    _show(found)
    if json_file is not None:
        json_file.write_text(topology_json(found), encoding="utf-8")


def live_topology() -> "Topology":
    """This machine's, through NVML.

    Raises:
        SetupError: there is no GPU to be read.
    """
    from harness.export.nvml.failure import Lost
    from harness.export.nvml.session import nvml
    from harness.export.nvml.topology import read_topology

    try:
        with nvml(os.environ) as devices:
            return read_topology(devices)
    except Lost as error:
        raise SetupError("a GPU fell off the bus while the topology was read") from error


def keep_topology(run: "RunFolder") -> None:
    """Write the topology beside a run; nothing where no GPU can be read."""
    from harness.records.topology import FILE_NAME

    with contextlib.suppress(SetupError):
        run.write_json(FILE_NAME, live_topology().model_dump(by_alias=True, mode="json"))


def _show(found: "Topology") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    n = len(found.gpus)
    pairs = {pair.gpus: pair for pair in found.pairs}
    table = Table(title="Links between GPUs", box=box.SIMPLE_HEAD, padding=0)
    table.add_column("GPU")
    for each in found.gpus:
        table.add_column(str(each.gpu), justify="center")
    for row in range(n):
        cells = [
            "" if row == column else _words(pairs[min(row, column), max(row, column)])
            for column in range(n)
        ]
        table.add_row(str(row), *(Text(cell) for cell in cells))
    console = Console()
    console.print(table)
    for each in found.gpus:
        console.print(Text(f"{each.gpu}  {each.model}  {each.uuid}  {each.pci_bus_id}"))
    rate = found.host_bytes_per_second
    told = f"{rate / 1e9:.1f} GB/s in one direction" if rate else "not told by NVML"
    console.print(f"PCIe: {told}")
    console.print(
        "NVn: n NVLinks, GB/s in one direction. PIX one PCIe switch, PXB several, PHB a host "
        "bridge, NODE one NUMA node, SYS several.",
        style="dim",
    )


def _words(pair: "Pair") -> str:
    if not pair.nvlinks:
        return pair.path or "?"
    speed = f" {pair.bytes_per_second / 1e9:.0f}" if pair.bytes_per_second else ""
    return f"NV{pair.nvlinks}{speed}"
