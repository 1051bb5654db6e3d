"""`tailbreak plan`: what a run would send, before anything is sent."""

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.plan.plan import Plan


def plan(
    scenario: Annotated[
        Path, typer.Argument(help="Scenario file, such as scenarios/quickstart.toml.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Every intended send, as the run would store it.")
    ] = False,
) -> None:
    """Show the cells, segments and requests that a scenario asks for. Sends nothing.

    Example: tailbreak plan scenarios/quickstart.toml
    """
    from rich.console import Console
    from rich.table import Table

    from harness.plan.build import build_plan
    from harness.plan.codec import plan_to_json
    from harness.scenario.read import read_scenario

    wanted = read_scenario(scenario)
    built = build_plan(wanted)
    if as_json:
        typer.echo(json.dumps(plan_to_json(built)))
        return
    axes = list(wanted.axes.given())
    table = Table(title=wanted.title)
    for column in ("cell", *axes, "load", "requests", "segments"):
        table.add_column(column)
    for cell in built.cells:
        segments = [segment for segment in built.segments if segment.cell == cell.id]
        load = f"{cell.concurrency} in flight" if cell.concurrency else f"{cell.rate_rps:g}/s"
        table.add_row(
            cell.id,
            *(str(cell.factors[axis]) for axis in axes),
            load,
            str(sum(len(segment.requests) for segment in segments)),
            str(len(segments)),
        )
    console = Console()
    console.print(table)
    n_prompt, n_output = _tokens(built)
    console.print(
        f"{built.n_requests:,} requests in {len(built.segments)} segments, seed {built.seed}; "
        f"{n_prompt:,} prompt tokens, {n_output:,} output tokens."
    )


def _tokens(built: Plan) -> tuple[int, int]:
    cells = {cell.id: cell for cell in built.cells}
    n_prompt = n_output = 0
    for segment in built.segments:
        cell = cells[segment.cell]
        n_prompt += cell.prompt_tokens * len(segment.requests)
        reasoning = cell.cot_depth * cell.cot_step_tokens
        n_output += sum(request.max_tokens + reasoning for request in segment.requests)
    return n_prompt, n_output
