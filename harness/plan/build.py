"""Scenario to Plan: pure, seeded, complete.

Each cell's requests are dealt to `segments_per_cell` segments; in every round each cell gets one
segment and the order inside a round is shuffled, so that drift over the run is orthogonal to the
axes. Output lengths and sampling seeds are drawn per (round, index) and so are common to all
cells: cells differ by their factors, not by their luck. Prompt seeds are unique: no prefix cache
can answer.
"""

import numpy as np

from harness.base.rng import generator, seed_for
from harness.plan.arrivals import constant_ns, poisson_ns
from harness.plan.grid import build_cells
from harness.plan.plan import Cell, Plan, PlannedRequest, Segment
from harness.scenario.schema import Scenario


def build_plan(scenario: Scenario) -> Plan:
    """The plan of this scenario; depends on the scenario and its seed only."""
    cells = build_cells(scenario)
    segments = [
        _segment(cells[number], repeat, scenario)
        for repeat in range(scenario.load.segments_per_cell)
        for number in _round_order(len(cells), repeat, scenario.seed)
    ]
    return Plan(scenario=scenario.name, seed=scenario.seed, cells=cells, segments=tuple(segments))


def _round_order(n_cells: int, repeat: int, seed: int) -> list[int]:
    return [int(number) for number in generator(seed, "order", repeat).permutation(n_cells)]


def _segment(cell: Cell, repeat: int, scenario: Scenario) -> Segment:
    load = scenario.load
    share, rest = divmod(load.requests_per_cell, load.segments_per_cell)
    n_measured = share + (1 if repeat < rest else 0)
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
