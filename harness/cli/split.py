"""`tailbreak split`: a batch over GPUs by their links, beside the even split."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.base.errors import SetupError

if TYPE_CHECKING:
    from harness.records.topology import Topology
    from harness.stats.batch_split import Share, Split

LIVE: Final = "live"
LARGEST_BATCH: Final = 65536


def split(
    *,
    batch: Annotated[
        int,
        typer.Option(help="Sequences to split.", metavar="N", min=1, max=LARGEST_BATCH),
    ],
    topology: Annotated[
        str,
        typer.Option(
            help="A file of `tailbreak topology --json`, or live: this machine.", metavar="FILE"
        ),
    ] = LIVE,
    budget_us: Annotated[
        float,
        typer.Option(
            help="Time the exchange of one micro-batch may take.", metavar="US", min=1, max=1e6
        ),
    ] = 13.5,
    sequence_bytes: Annotated[
        int,
        typer.Option(
            help="Exchanged for each sequence: hidden size times bytes of a number.",
            metavar="N",
            min=1,
            max=2**40,
        ),
    ] = 16384,
    sequence_us: Annotated[
        float,
        typer.Option(
            help="Work of one GPU on one sequence between two exchanges.",
            metavar="US",
            min=0,
            max=1e9,
        ),
    ] = 2.0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the same as JSON.", metavar="FILE")
    ] = None,
) -> None:
    """Split a batch over GPUs by the links between them, beside the even split over all.

    Islands of linked GPUs share the batch so that the slowest is as fast as can be; each runs
    micro-batches whose exchange fits the budget and hides behind the next one's work. Beside it the
    same shares whole, and one ring over all GPUs by number. The times are those of a model
    of bandwidth and latency, not measured (docs/telemetry.md).

    Example: tailbreak split --batch 250 --topology topology.json
    """
    from harness.cli.result_file import check_folder
    from harness.stats.batch_split import Work, split_by_links, split_evenly

    check_folder("--json", json_file)
    for option, number in (("--budget-us", budget_us), ("--sequence-us", sequence_us)):
        if not math.isfinite(number):
            raise SetupError(f"{option}: got {number}, allowed a number of microseconds")
    found = _topology(topology)
    links, host = _bandwidth(found), found.host_bytes_per_second
    work = Work(
        sequence_bytes=sequence_bytes, sequence_s=sequence_us / 1e6, budget_s=budget_us / 1e6
    )
    chosen = split_by_links(links, host, batch, work)
    if not chosen.shares:
        raise SetupError(
            f"--topology {topology}: {'; '.join(chosen.caveats)}; give host_bytes_per_second"
        )
    even = split_evenly(links, host, batch, work)
    splits = {"links": chosen, "whole": chosen.in_one_piece(), "even": even}
    _show(splits, batch, len(found.gpus))
    if json_file is not None:
        value = {
            "schema": 1,
            "batch": batch,
            **{name: None if each is None else _value(each) for name, each in splits.items()},
            "speed_up": None if even is None else even.total_s / chosen.total_s,
        }
        json_file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _topology(given: str) -> "Topology":
    from harness.cli.topology import live_topology
    from harness.records.topology import read_topology

    return live_topology() if given == LIVE else read_topology(Path(given))


def _bandwidth(found: "Topology") -> Any:
    """The pairs as a matrix; links whose speed is not told cannot be reckoned with."""
    import numpy as np

    links = np.zeros((len(found.gpus), len(found.gpus)))
    for pair in found.pairs:
        if pair.nvlinks and pair.bytes_per_second is None:
            raise SetupError(
                f"GPUs {pair.gpus[0]} and {pair.gpus[1]}: NVML does not tell how fast their links "
                "are; write bytes_per_second into a file of `tailbreak topology --json`"
            )
        if pair.nvlinks:
            links[pair.gpus] = links[pair.gpus[::-1]] = pair.bytes_per_second
    return links


def _value(each: "Split") -> dict[str, Any]:
    return {
        "total_s": each.total_s,
        "groups": [
            {
                "gpus": list(share.route.order),
                "shape": "ring" if share.route.is_ring else "chain",
                "bytes_per_second": share.route.bytes_per_s if len(share.route.order) > 1 else None,
                "sequences": share.n_sequences,
                "micro_batch": share.micro_batch,
                "pieces": list(share.pieces),
                "compute_s": share.compute_s,
                "exchange_s": share.exchange_s,
                "total_s": share.total_s,
                "hidden_share": share.hidden_share,
            }
            for share in each.shares
        ],
        "caveats": list(each.caveats),
    }


COLUMNS: Final = (
    "split", "GPUs", "GB/s", "n", "pieces", "work", "comm", "hidden", "total",
)  # fmt: skip


def _show(splits: "dict[str, Split | None]", batch: int, n_gpus: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{batch:,} sequences over {n_gpus} GPUs: a model's times in us")
    for column in COLUMNS:
        is_word = column in ("split", "GPUs", "pieces")
        table.add_column(column, justify="left" if is_word else "right", overflow="fold")
    for name, each in splits.items():
        for share in each.shares if each else ():
            table.add_row(*(Text(cell) for cell in (name, *_cells(share))))
    console = Console()
    console.print(table)
    chosen, even = splits["links"], splits["even"]
    if even is None:
        console.print("Even split: no bandwidth over the host is known, so no time can be told.")
    elif chosen is not None:
        ratio = even.total_s / chosen.total_s
        console.print(f"The even split takes {ratio:.2f} times as long as the one by links.")
    for caveat in chosen.caveats if chosen else ():
        console.print(Text(f"Caveat: {caveat}."))


def _cells(share: "Share") -> tuple[str, ...]:
    order = [str(each) for each in share.route.order]
    return (
        " ".join(order),
        f"{share.route.bytes_per_s / 1e9:.0f}" if len(order) > 1 else "",
        str(share.n_sequences),
        " + ".join(_pieces(share.pieces)),
        f"{1e6 * share.compute_s:.1f}",
        f"{1e6 * share.exchange_s:.1f}",
        "" if share.hidden_share is None else f"{share.hidden_share:.0%}",
        f"{1e6 * share.total_s:.1f}",
    )


def _pieces(pieces: tuple[int, ...]) -> list[str]:
    sizes = list(dict.fromkeys(pieces))
    return [
        f"{pieces.count(size)}x{size}" if pieces.count(size) > 1 else f"{size}" for size in sizes
    ]
