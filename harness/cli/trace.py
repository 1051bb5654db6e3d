"""`tailbreak trace`: what profilers' files say of ranks that wait, of copies, launches, stalls."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from harness.findings.ranks import RankTable
    from harness.findings.symptoms import Symptom
    from harness.records.profile import Profile


def trace(
    files: Annotated[list[Path], typer.Argument(help="One file a process, of one run.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all tables in full.", metavar="FILE")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw the ranks around the longest wait.", metavar="FILE")
    ] = None,
) -> None:
    """Read profilers' files: who made the others wait, and what is wrong.

    The torch profiler's Chrome traces (.json, .json.gz), one a rank: for each rank how often it
    came last to a collective, how late, and how long it waited for others. Clocks of ranks need not
    agree. Symptoms with cause and fix are named below the tables.

    Example: tailbreak trace rank*.json.gz --png ranks.png
    """
    from harness.importers.profile_file import read_profile

    check_folder("--json", json_file)
    check_folder("--png", png)
    tell([read_profile(file) for file in files], json_file, png)


def tell(profiles: "list[Profile]", json_file: Path | None, png: Path | None) -> None:
    """Print every table and symptom of these profiles, and write what was asked for."""
    from harness.cli.trace_tables import show_ranks, show_symptoms
    from harness.findings.ranks import rank_table

    table = rank_table(profiles) if len(profiles) > 1 else None
    if png is not None and table is None:
        raise SetupError("--png draws ranks; give at least two files, one a rank")
    caveats = [text for each in profiles for text in each.caveats]
    if table is not None:
        show_ranks(table)
        caveats += table.caveats
    symptoms = _symptoms(profiles, table)
    show_symptoms(symptoms, caveats)
    if json_file is not None:
        json_file.write_text(
            json.dumps(_plain(profiles, table, symptoms, caveats), indent=1) + "\n"
        )
    if png is not None and table is not None:
        from harness.report.rank_timeline import draw

        draw(table.meetings, png)


def _symptoms(profiles: "list[Profile]", table: "RankTable | None") -> "list[Symptom]":
    from harness.findings.symptoms import RULES, Context

    context = Context(
        profiles={each.file: each.events for each in profiles},
        ranks=table.meetings if table is not None else None,
    )
    found = [rule(context) for rule in RULES]
    return [each for each in found if each is not None]


def _plain(
    profiles: "list[Profile]",
    table: "RankTable | None",
    symptoms: "list[Symptom]",
    caveats: list[str],
) -> dict[str, Any]:
    return {
        "schema": 1,
        "files": [
            {"file": each.file, "tool": each.tool, "rank": each.rank, "n_events": len(each.events)}
            for each in profiles
        ],
        "ranks": table.to_json() if table is not None else None,
        "symptoms": [asdict(each) for each in symptoms],
        "caveats": caveats,
    }
