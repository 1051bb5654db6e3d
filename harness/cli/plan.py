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

    How long a closed loop takes depends on the target; the last line says how many minutes each
    second of an answer costs, and `tailbreak probe URL` says how many seconds an answer takes.

    Example: tailbreak plan scenarios/quickstart.toml

    Example: tailbreak plan scenarios/quickstart.toml --json > plan.json
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from harness.plan.build import build_plan
    from harness.plan.codec import plan_to_json
    from harness.scenario.read import read_scenario

    wanted = read_scenario(scenario)
    built = build_plan(wanted)
    if as_json:
        typer.echo(json.dumps(plan_to_json(built)))
        return
    axes = list(wanted.axes.given())
    table = Table(title=Text(wanted.title))
    for column in ("cell", *axes, "load", "requests", "segments"):
        table.add_column(column.replace("_", " "), no_wrap=column == "load")
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
    n_calls, n_prompt, n_output = _sizes(built)
    chains = f", {n_calls:,} calls" if n_calls > built.n_requests else ""
    at_least = "at least " if chains else ""
    console.print(
        f"{built.n_requests:,} requests{chains} in {len(built.segments)} segments, "
        f"seed {built.seed}; {at_least}{n_prompt:,} prompt tokens, {n_output:,} output tokens."
    )
    n_warmup = sum(segment.n_warmup for segment in built.segments)
    if n_warmup:
        console.print(f"{n_warmup:,} of the requests are warm-up: sent, kept, not analysed.")
    bundled = "the bundled server, started by the run; yours with `tailbreak run --target URL`"
    console.print(Text(f"Target: {wanted.target.url or bundled}."))
    console.print(Text(_duration(built, wanted.load.think_time_s)))


def _duration(built: Plan, think_time_s: float) -> str:
    """How long the sending takes: known for an open loop, per second of an answer for a closed."""
    cells = {cell.id: cell for cell in built.cells}
    is_open, open_s, rounds = False, 0.0, 0.0
    for segment in built.segments:
        concurrency = cells[segment.cell].concurrency
        if concurrency:
            rounds += -(-len(segment.requests) // concurrency)
        else:
            is_open = True
            open_s += max((request.offset_ns or 0) for request in segment.requests) / 1e9
    if is_open:
        return f"Open loop: sending takes {open_s / 60:.1f} min, and each segment its last answer."
    think = f" and {rounds * think_time_s / 60:.1f} min of thinking" if think_time_s else ""
    return (
        f"Closed loop: {rounds:,.0f} rounds, {rounds / 60:.1f} min for each second that an answer "
        f"takes{think}."
    )


def _sizes(built: Plan) -> tuple[int, int, int]:
    """Calls, prompt and output tokens; a chain's calls read the answers before them again."""
    cells = {cell.id: cell for cell in built.cells}
    n_calls = n_prompt = n_output = 0
    for segment in built.segments:
        cell, n_requests = cells[segment.cell], len(segment.requests)
        again = cell.cot_step_tokens * sum(range(cell.n_calls))
        n_calls += cell.n_calls * n_requests
        n_prompt += (cell.prompt_tokens * cell.n_calls + again) * n_requests
        reasoning = cell.cot_depth * cell.cot_step_tokens
        n_output += sum(request.max_tokens + reasoning for request in segment.requests)
    return n_calls, n_prompt, n_output
