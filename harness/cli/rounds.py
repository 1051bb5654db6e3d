"""Between the rounds of a run: what the findings wish for next, written into its plan.

The note in `run.json` is written before the plan: a round whose segments are not planned yet is no
round, and is thought of anew after a crash.
"""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from harness.records.run import RunFolder


def plan_next_round(folder: "RunFolder") -> bool:
    """Append the next round to the run's plan, and say what it is for; False without one.

    Raises:
        RecordError: the run cannot be read, or the plan not be written.
    """
    from harness.cli.analyse import judge_cells
    from harness.findings.breaks import find_breaks
    from harness.findings.rounds import next_wishes
    from harness.plan.codec import plan_to_json
    from harness.plan.rounds import extend_plan
    from harness.records.about import read_about
    from harness.report.round_table import WHY

    evidence, _, cells = judge_cells(folder)
    wishes = next_wishes(evidence, cells, find_breaks(evidence, cells))
    if not wishes:
        return False
    plan = extend_plan(evidence.plan, wishes, evidence.scenario)
    new = plan.segments[len(evidence.plan.segments) :]
    ids = {tuple(cell.factors.items()): cell.id for cell in plan.cells}
    repeats = [segment.repeat for segment in new]
    note = {
        "first_repeat": min(repeats),
        "n_repeats": max(repeats) - min(repeats) + 1,
        "wishes": [
            {"cell": ids[tuple(wish.factors.items())], "n": wish.n, "why": wish.why}
            for wish in wishes
        ],
    }
    folder.write_json("run.json", {**read_about(folder), "rounds": [*evidence.rounds, note]})
    folder.write_json("plan.json", plan_to_json(plan))
    n = sum(wish.n for wish in wishes)
    told = ", ".join(dict.fromkeys(WHY[wish.why] for wish in wishes))
    where = "1 cell" if len(wishes) == 1 else f"{len(wishes)} cells"
    typer.echo(f"round {len(evidence.rounds) + 2}: {n:,} requests in {where} for {told}", err=True)
    return True
