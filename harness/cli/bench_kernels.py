"""`tailbreak bench kernels`: what each kernel costs, beside its peers and the memory's floor."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_folder
from harness.cli.stages import stages

if TYPE_CHECKING:
    from kernels.bench.study import Row


def kernels(
    ops: Annotated[
        str | None,
        typer.Option(help="Ops to time, separated by commas; without it all.", metavar="LIST"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One small shape for each op: a look, no figure.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write machine and rows in full.", metavar="FILE"),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw share of the floor over bytes.", metavar="FILE")
    ] = None,
) -> None:
    """Time every kernel beside its eager and native peers.

    Prints, for each op, shape and backend, as Markdown: the median with its 95 % interval,
    processor time, how many times longer torch eager, smart eager (a top-k window) and vLLM's torch
    path take in the same run, bytes moved, and the share of the measured memory bandwidth.
    A missed target is marked, with the reason. Takes some two minutes on two quiet cores.

    Exit codes: 0, or 2 for an unknown op.

    Example: tailbreak bench kernels --ops sampling --png roofline.png
    """
    from kernels.bench import machine, roofline
    from kernels.bench.cases import build_cases
    from kernels.bench.study import FULL, QUICK, run_cases

    check_folder("--json", json_file)
    check_folder("--png", png)
    cases = build_cases(_chosen(ops), is_quick=quick)
    about = machine.describe()
    with stages(len(cases)) as say:
        rows = list(
            run_cases(cases, QUICK if quick else FULL, lambda case: say(f"{case.op} {case.shape}"))
        )
    _print(about, rows)
    if json_file is not None:
        value = {"schema": 1, "machine": about, "rows": [row.to_json() for row in rows]}
        json_file.write_text(json.dumps(value, indent=1) + "\n")
    if png is not None:
        roofline.draw(rows, png)


def _chosen(ops: str | None) -> list[str]:
    from kernels.bench.cases import OPS

    asked = list(OPS) if ops is None else [op.strip() for op in ops.split(",")]
    unknown = [op for op in asked if op not in OPS]
    if unknown:
        raise SetupError(f"--ops: got {unknown[0]!r}, allowed {', '.join(OPS)}")
    return asked


def _print(about: dict[str, Any], rows: "list[Row]") -> None:
    from kernels.bench import machine, table

    for line in machine.tell(about):
        print(line)
    for op in dict.fromkeys(row.op for row in rows):
        body = [table.cells(row) for row in rows if row.op == op]
        print(f"\n{op}\n\n{table.markdown(table.HEAD, body)}")
    print()
    for note in table.notes(rows):
        print(note)
    print(table.LEGEND)
