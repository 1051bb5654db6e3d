"""Scenario to Plan: pure, seeded, complete.

Each cell's requests are dealt to `segments_per_cell` segments; in every repeat each cell gets one
segment and the order inside a repeat is shuffled, so that drift over the run is orthogonal to the
axes. Output lengths and sampling seeds are drawn per (repeat, index) and so are common to all
cells: cells differ by their factors, not by their luck. Prompt seeds are unique: no prefix cache
can answer. Where a run goes in rounds this is the first of them, a quarter of the requests, evenly;
`rounds.py` adds the others.
"""

from typing import Final

import numpy as np

from harness.base.rng import generator, seed_for
from harness.plan.arrivals import constant_ns, poisson_ns
from harness.plan.grid import build_cells
from harness.plan.plan import Cell, Plan, PlannedRequest, Segment
from harness.scenario.schema import Scenario

FIRST_SHARE: Final = 4
"""The first of several rounds takes one part in four of the requests."""

LEAST_SEGMENTS: Final = 2
"""Of a round: one alone tells nothing of what moves between segments."""


def build_plan(scenario: Scenario) -> Plan:
    """The plan of this scenario; depends on the scenario and its seed only."""
    cells, load = build_cells(scenario), scenario.load
    part = FIRST_SHARE if scenario.has_rounds else 1
    n = -(-load.requests_per_cell // part)
    at_least = min(LEAST_SEGMENTS, load.segments_per_cell)
    n_segments = min(n, max(at_least, -(-load.segments_per_cell // part)))
    segments = [
        build_segment(cells[number], repeat, n_measured, scenario)
        for repeat, n_measured in enumerate(deal(n, n_segments))
        for number in round_order(len(cells), repeat, scenario.seed)
    ]
    return Plan(scenario=scenario.name, seed=scenario.seed, cells=cells, segments=tuple(segments))


def deal(n: int, n_segments: int) -> list[int]:
    """Requests of each segment, the first ones with the rest."""
    share, rest = divmod(n, n_segments)
    return [share + (1 if i < rest else 0) for i in range(n_segments)]


def round_order(n_cells: int, repeat: int, seed: int) -> list[int]:
    """Numbers of the cells in the order in which they get their segment of this repeat."""
    return [int(number) for number in generator(seed, "order", repeat).permutation(n_cells)]


def build_segment(cell: Cell, repeat: int, n_measured: int, scenario: Scenario) -> Segment:
    """The cell's segment of this repeat: warm-up, then this many measured requests."""
    load = scenario.load
    n = load.warmup_requests + n_measured
    lengths = _output_lengths(n, repeat, scenario)
    offsets = _offsets(n, cell, repeat, scenario)
    return Segment(
        id=f"{cell.id}-r{repeat}",
        cell=cell.id,
        repeat=repeat,
        n_warmup=load.warmup_requests,
        requests=tuple(
            PlannedRequest(
                index=index,
                is_warmup=index < load.warmup_requests,
                offset_ns=offsets[index],
                prompt_seed=seed_for(scenario.seed, "prompt", cell.id, repeat, index),
                max_tokens=lengths[index],
                sampling_seed=seed_for(scenario.seed, "sampling", repeat, index) % 2**31,
            )
            for index in range(n)
        ),
    )


def _output_lengths(n: int, repeat: int, scenario: Scenario) -> list[int]:
    output = scenario.output
    rng = generator(scenario.seed, "output", repeat)
    low, high = output.tokens - output.spread, output.tokens + output.spread
    return [int(length) for length in rng.integers(low, high + 1, size=n)]


def _offsets(n: int, cell: Cell, repeat: int, scenario: Scenario) -> list[int | None]:
    if cell.rate_rps is None:
        return [None] * n
    if scenario.load.arrivals == "constant":
        offsets: np.ndarray = constant_ns(n, cell.rate_rps)
    else:
        rng = generator(scenario.seed, "arrivals", cell.id, repeat)
        offsets = poisson_ns(n, cell.rate_rps, rng)
    return [int(offset) for offset in offsets]
