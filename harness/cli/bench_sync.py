"""`tailbreak bench sync`: real ranks that meet in collectives, traced, one of them late."""

from pathlib import Path
from typing import Annotated

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_folder

MOST_LATE_MS = 10_000.0


def sync(
    ranks: Annotated[int, typer.Option(help="Processes of the group.", min=2, max=64)] = 4,
    steps: Annotated[int, typer.Option(help="Collectives.", min=1, max=10_000)] = 100,
    straggler: Annotated[
        str, typer.Option(help="Rank and how late it is, such as 2:5.", metavar="RANK:MS")
    ] = "",
    out: Annotated[
        Path, typer.Option(help="Folder of the traces, which is made.", metavar="DIR")
    ] = Path("rank-traces"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all tables in full.", metavar="FILE")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw the ranks around the longest wait.", metavar="FILE")
    ] = None,
) -> None:
    """Trace ranks that work and meet in all-reduces over gloo, and read who was late.

    Each rank writes what the torch profiler sees (`rank0.json.gz` ...), which `tailbreak trace`
    reads; the straggler sleeps so long before each collective. Needs no GPU.

    Example: tailbreak bench sync --straggler 2:5 --png ranks.png
    """
    from harness.cli.trace import tell
    from harness.importers.profile_file import read_profile
    from kernels.bench.sync import trace_ranks

    late_s = _late_s(straggler, ranks)
    check_folder("--json", json_file)
    check_folder("--png", png)
    try:
        out.mkdir(parents=True, exist_ok=True)
        files = trace_ranks(ranks, late_s, steps, out)
    except OSError as error:
        raise SetupError(f"--out {out}: cannot be made: {error.strerror}") from error
    except RuntimeError as error:
        raise SetupError(str(error)) from error
    tell([read_profile(file) for file in files], json_file, png)


def _late_s(straggler: str, n_ranks: int) -> dict[int, float]:
    if not straggler:
        return {}
    rank, _, late = straggler.partition(":")
    try:
        place, late_ms = int(rank), float(late)
    except ValueError:
        place, late_ms = -1, -1.0
    if not (0 <= place < n_ranks and 0 < late_ms <= MOST_LATE_MS):
        raise SetupError(
            f"--straggler: got {straggler!r}, allowed RANK:MS with a rank from 0 to {n_ranks - 1} "
            f"and above 0 to {MOST_LATE_MS:.0f} ms, try 1:5"
        )
    return {place: late_ms / 1e3}
