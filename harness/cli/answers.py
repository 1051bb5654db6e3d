"""`tailbreak answers`: what can be seen wrong with answers from their texts alone."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.result_file import check_folder


def answers(
    file: Annotated[
        Path, typer.Argument(help='JSON lines with "text", and "prompt" or "outcome".')
    ],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything found here.", metavar="FILE")
    ] = None,
) -> None:
    """Look through logged answers for what their texts can show.

    Repeated text, answers without a word of the question, empty and broken answers; each with its
    cause and fix. Whether facts or reasoning are right cannot be seen from here.

    Example: tailbreak answers answers.jsonl
    """
    from rich.console import Console
    from rich.text import Text

    from harness.findings.diagnosis import diagnose
    from harness.findings.symptoms import Context
    from harness.importers.answers import read_answers

    check_folder("--json", json_file)
    rows, n_strange = read_answers(file)
    found = diagnose(Context(records=rows)).symptoms
    console = Console()
    for each in found:
        for said in (f"{each.name}: {each.seen}", f"  cause: {each.cause}", f"  fix: {each.fix}"):
            console.print(Text(said))
    if not found:
        typer.echo(f"nothing found in {len(rows):,} answers")
    if n_strange:
        typer.echo(f"{n_strange:,} lines were no answers", err=True)
    if json_file is not None:
        value = {"n": len(rows), "n_strange": n_strange, "symptoms": [asdict(e) for e in found]}
        json_file.write_text(json.dumps(value, indent=1, allow_nan=False), encoding="utf-8")
