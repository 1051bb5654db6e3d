"""`tailbreak bench broadcast`: one rank's vector to all, and what a busy memory does to it."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_folder
from harness.cli.stages import stages

if TYPE_CHECKING:
    from kernels.bench.broadcasts import Block, Row
    from kernels.bench.timing import Interval

LEVELS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the time that the load works."""
N_TURNS: Final = 8
"""Of every level, in an order drawn by the seed."""
SIZES: Final = (4 << 10, 256 << 10, 4 << 20)
KINDS: Final[tuple[Literal["memory", "processor"], ...]] = ("memory", "processor")
ROWS_LEGEND: Final = """\
latency: wall time until the last rank has it, from a barrier on; tailbreak: with the
agreement of the ranks on what is sent, transfer: without. GB/s: that a rank receives.
x torch: how many times longer torch.distributed takes, within rounds. runs: rounds x calls."""
SETTINGS_LEGEND: Final = """\
r: latency with the share of that in use (memory), or with the level (processor: the control,
in cache). n: blocks, in brackets the independent ones they are worth. idle, most us: latency
without and with all of the load."""
PUBLISHED: Final = (
    "Published: r = 0.83 (at 78.2 % of the bandwidth, 142.6 us) and 0.91 (91.5 %, 317.4 us), "
    "without the number of values, an interval, or a control."
)


def broadcast(
    ranks: Annotated[
        str, typer.Option(help="Processes of the groups, each timed apart.", metavar="N,N")
    ] = "2,4",
    seed: Annotated[int, typer.Option(help="Of the order of the levels.", min=0)] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds: a look, no figure.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every row and block.", metavar="FILE")
    ] = None,
) -> None:
    """Time the broadcast op on real ranks over gloo, beside torch's own, by ranks and bytes.

    Then: does memory bandwidth in use go with its latency? Other processes copy at five levels in a
    drawn order while the smallest group broadcasts; Pearson's r with its interval, for each size.
    The same work inside the cache is the control: what correlates there as well is the processors'
    doing and not the memory's.

    Example: tailbreak bench broadcast --ranks 2,4 --json broadcast.json
    """
    from kernels.bench.broadcasts import time_broadcasts
    from kernels.bench.machine import other_work

    check_folder("--json", json_file)
    counts, load_average = _counts(ranks), os.getloadavg()[0]
    n_rounds, slice_s, sizes = (6, 0.02, SIZES[:2]) if quick else (20, 0.1, SIZES)
    loaded = sizes[:1] if quick else sizes
    try:
        with stages(len(counts) + len(loaded) * len(KINDS)) as say:
            rows = []
            for count in counts:
                say(f"{count} ranks")
                rows += time_broadcasts(count, sizes, n_rounds=n_rounds, slice_s=slice_s)
            settings = _correlate(counts[0], loaded, seed, slice_s, say, quick=quick)
    except RuntimeError as error:
        raise SetupError(str(error)) from error
    _print_rows(rows)
    _print_settings(settings)
    print(other_work(load_average))
    if json_file is not None:
        told = {
            "schema": 1,
            "seed": seed,
            "load_average": load_average,
            "rows": [_row(row) for row in rows],
            "under_load": settings,
        }
        json_file.write_text(json.dumps(told, indent=1) + "\n")


def _counts(ranks: str) -> list[int]:
    try:
        counts = [int(each) for each in ranks.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(2 <= each <= 64 for each in counts):
        raise SetupError(f"--ranks: got {ranks!r}, allowed numbers from 2 to 64, try 2,4")
    return sorted(set(counts))


def _correlate(
    n_ranks: int,
    sizes: tuple[int, ...],
    seed: int,
    slice_s: float,
    say: Callable[[str], None],
    *,
    quick: bool,
) -> list[dict[str, Any]]:
    """One setting a size and kind of load; r never over several of them."""
    import numpy as np

    from harness.stats.correlation import pearson
    from kernels.bench.bandwidth import rate
    from kernels.bench.broadcasts import broadcast_under_load
    from kernels.bench.machine import cores

    n_loads = cores()
    peak = rate(1 << 26, n_loads, "copy")
    turns = np.tile(LEVELS, 2 if quick else N_TURNS)
    settings = []
    for n_bytes in sizes:
        for kind in KINDS:
            say(f"{n_bytes:,} bytes, {kind} loaded")
            levels = np.random.default_rng(seed).permutation(turns).tolist()
            blocks = broadcast_under_load(
                n_ranks, n_bytes, kind, levels, slice_s=2 * slice_s, n_loads=n_loads
            )
            use = [b.bytes_per_s / peak if kind == "memory" else b.level for b in blocks]
            found = pearson(use, [b.latency_s for b in blocks])
            settings.append(
                {
                    "n_ranks": n_ranks,
                    "n_bytes": n_bytes,
                    "load": kind,
                    "peak_bytes_per_s": peak,
                    "correlation": asdict(found),
                    "least_load_s": _at(blocks, min(LEVELS)),
                    "most_load_s": _at(blocks, max(LEVELS)),
                    "most_use": max(use),
                    "blocks": [asdict(b) for b in blocks],
                }
            )
    return settings


def _at(blocks: "list[Block]", level: float) -> float:
    import statistics

    return statistics.median(b.latency_s for b in blocks if b.level == level)


def _row(row: "Row") -> dict[str, Any]:
    return {**asdict(row), "bytes_per_s": row.bytes_per_s}


def _print_rows(rows: "list[Row]") -> None:
    from kernels.bench.table import markdown

    head = ["ranks", "bytes", "who", "latency us (95 %)", "transfer us", "GB/s", "x torch", "runs"]
    body = [
        [
            str(row.n_ranks),
            f"{row.n_bytes:,}",
            row.who,
            _bounded(row.latency, 1e6, ".0f"),
            f"{row.transfer.value * 1e6:.0f}",
            f"{row.bytes_per_s / 1e9:.3g}",
            _bounded(row.torch_takes, 1, ".3g"),
            f"{row.n_rounds}x{row.n_calls}",
        ]
        for row in rows
    ]
    print(markdown(head, body))
    print(f"\n{ROWS_LEGEND}\n")


def _bounded(interval: "Interval", scale: float, shape: str) -> str:
    value, low, high = (x * scale for x in (interval.value, interval.low, interval.high))
    return f"{value:{shape}} ({low:{shape}}-{high:{shape}})"


def _print_settings(settings: list[dict[str, Any]]) -> None:
    from kernels.bench.table import markdown

    head = ["ranks", "bytes", "load", "r (95 %)", "n", "idle us", "most us", "most use"]
    body = [
        [
            str(each["n_ranks"]),
            f"{each['n_bytes']:,}",
            each["load"],
            _r(each["correlation"]),
            f"{each['correlation']['n']} ({each['correlation']['n_effective']:.0f})",
            f"{each['least_load_s'] * 1e6:.0f}",
            f"{each['most_load_s'] * 1e6:.0f}",
            f"{each['most_use']:.0%}",
        ]
        for each in settings
    ]
    print(markdown(head, body))
    peak = settings[0]["peak_bytes_per_s"]
    print(f"\nmemory: a copy alone moves {peak / 1e9:.1f} GB/s.\n{SETTINGS_LEGEND}\n{PUBLISHED}")


def _r(told: dict[str, Any]) -> str:
    if told["r"] is None:
        return f"none: {told['reason']}"
    return f"{told['r']:.2f} ({told['low']:.2f} to {told['high']:.2f})"
