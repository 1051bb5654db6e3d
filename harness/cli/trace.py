"""`tailbreak trace`: what profilers' files say of ranks that wait, of copies, launches, stalls."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from harness.findings.ranks import RankTable
    from harness.findings.symptoms import Symptom
    from harness.records.kernel_counters import KernelCounters
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

    The torch profiler's Chrome traces (.json, .json.gz), one a rank: how often each rank came last
    to a collective, how late, and how long it waited for others; clocks need not agree. Those and
    Nsight Systems (SQLite export, or CSV of nsys stats --report cuda_gpu_trace): kernels, gaps,
    copies, launches. Nsight Compute (CSV of --page raw, or .ncu-rep): stall reasons, instructions,
    bandwidth by kernel. Symptoms with cause and fix are named below the tables.

    Example: tailbreak trace rank*.json.gz --png ranks.png

    Example: tailbreak trace profile.sqlite kernels.csv --json told.json
    """
    from harness.cli.file_bar import file_bar
    from harness.importers.profile_file import read_profile

    check_folder("--json", json_file)
    check_folder("--png", png)
    with file_bar(files) as begin:
        profiles = [read_profile(file, begin(file)) for file in files]
    tell(profiles, json_file, png)


def tell(files: "list[Profile | KernelCounters]", json_file: Path | None, png: Path | None) -> None:
    """Print every table and symptom of these files, and write what was asked for."""
    from harness.cli.trace_tables import show_counters, show_ranks, show_symptoms, show_work
    from harness.findings.device_work import device_work
    from harness.findings.kernel_stalls import kernel_rows
    from harness.findings.ranks import rank_table
    from harness.records.profile import Profile

    profiles = [each for each in files if isinstance(each, Profile)]
    counters = {e.file: kernel_rows(e) for e in files if not isinstance(e, Profile)}
    ranked = [each for each in profiles if each.rank is not None]
    table = rank_table(ranked) if len(ranked) > 1 else None
    if png is not None and table is None:
        raise SetupError("--png draws ranks; give the torch profiler's traces of at least two")
    works = {each.file: device_work(each.events) for each in profiles}
    symptoms = _symptoms(profiles, table)
    caveats = [text for each in files for text in each.caveats]
    show_work({file: work for file, work in works.items() if work is not None})
    for file, rows in counters.items():
        show_counters(file, rows)
    if table is not None:
        show_ranks(table)
        caveats += table.caveats
    show_symptoms(symptoms, caveats)
    if json_file is not None:
        told = {
            "schema": 1,
            "files": [{"file": each.file, "tool": each.tool} for each in files],
            "work": {file: each.to_json() if each else None for file, each in works.items()},
            "kernels": {file: [row.to_json() for row in rows] for file, rows in counters.items()},
            "ranks": table.to_json() if table is not None else None,
            "symptoms": [asdict(each) for each in symptoms],
            "caveats": caveats,
        }
        json_file.write_text(json.dumps(told, indent=1) + "\n")
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
