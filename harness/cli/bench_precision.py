"""`tailbreak bench precision`: what becomes of penalties that are summed up in a short float."""

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.result_file import check_folder


def precision(
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every row in full.", metavar="FILE")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw the errors over the steps.", metavar="FILE")
    ] = None,
) -> None:
    """Sum penalties up for 4,000 steps in fp32, fp16 and bf16, against exact arithmetic.

    Prints, as Markdown: the error after 1,000 steps, the largest to 4,000, the step at which it
    passes 0.01 nats, the step from which the sum stands still, and the same for penalties that are
    counted and multiplied once, as our kernels do it. Published errors stand beside.

    Example: tailbreak bench precision --png drift.png
    """
    from kernels.bench import drift_curves
    from kernels.bench.precision import HEAD, LEGEND, study
    from kernels.bench.table import markdown

    check_folder("--json", json_file)
    check_folder("--png", png)
    drifts = study()
    print(markdown(HEAD, [each.cells() for each in drifts]))
    print(f"\n{LEGEND}")
    if json_file is not None:
        value = {"schema": 1, "rows": [each.to_json() for each in drifts]}
        json_file.write_text(json.dumps(value, indent=1) + "\n")
    if png is not None:
        drift_curves.draw(drifts, png)
