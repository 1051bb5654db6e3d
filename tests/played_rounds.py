"""A run in rounds played in memory: a law answers every planned request, nothing is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.base.rng import generator
from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.evidence import Evidence
from harness.findings.finding import Breakpoint, Cell
from harness.findings.rounds import next_wishes
from harness.plan.build import build_plan
from harness.plan.plan import Plan
from harness.plan.rounds import extend_plan
from harness.records.request import RequestRecord
from harness.scenario.schema import Scenario
from tests.make_records import MS, make_evidence, make_record

Law = Callable[[dict[str, Any]], float]
"""Median TTFT in seconds, by the factors of a cell."""


@dataclass(frozen=True)
class Played:
    """How such a run ended; `why` names each round's reasons."""

    evidence: Evidence
    cells: list[Cell]
    breakpoints: list[Breakpoint]
    why: list[set[str]]

    @property
    def n(self) -> int:
        """Measured requests of all rounds."""
        return self.evidence.plan.n_measured


def play(
    scenario: Scenario, law: Law, *, seed: int = 1, sigma: float = 0.15, spread: float = 0.0
) -> Played:
    """Round after round until nothing is wished for; starts of the server scatter by `spread`."""
    plan, records, rounds = build_plan(scenario), list[RequestRecord](), list[dict[str, Any]]()
    n_planned = 0
    while True:
        session = len(rounds) + 1
        records += _answers(plan, n_planned, law, session, (seed, sigma, spread))
        n_planned = len(plan.segments)
        run = {
            "id": "played", "target": "http://127.0.0.1:1", "started": "2026-01-01T00:00:00+00:00",
            "status": "complete", "is_bundled": True, "rounds": rounds,
            "sessions": [{"number": n + 1} for n in range(session)],
        }  # fmt: skip
        evidence = make_evidence(
            records,
            scenario,
            plan=plan,
            run=run,
            later_environments=({"python": "3.11"},) * (session - 1),
        )
        cells = summarise_cells(evidence, [])
        breakpoints = find_breaks(evidence, cells)
        wishes = next_wishes(evidence, cells, breakpoints)
        if not wishes:
            why = [{wish["why"] for wish in each["wishes"]} for each in rounds]
            return Played(evidence, cells, breakpoints, why)
        plan = extend_plan(plan, wishes, scenario)
        repeats = [segment.repeat for segment in plan.segments[n_planned:]]
        ids = {tuple(cell.factors.items()): cell.id for cell in plan.cells}
        rounds = [
            *rounds,
            {
                "first_repeat": min(repeats), "n_repeats": max(repeats) - min(repeats) + 1,
                "wishes": [
                    {"cell": ids[tuple(wish.factors.items())], "n": wish.n, "why": wish.why}
                    for wish in wishes
                ],
            },
        ]  # fmt: skip


def _answers(
    plan: Plan, n_done: int, law: Law, session: int, noise: tuple[int, float, float]
) -> list[RequestRecord]:
    seed, sigma, spread = noise
    rng = generator(seed, "answers", session)
    level = spread * rng.standard_normal()
    found, now = [], (1 + session) * 10**13
    for segment in plan.segments[n_done:]:
        cell = plan.cell(segment.cell)
        times = law(cell.factors) * np.exp(
            level + sigma * rng.standard_normal(len(segment.requests))
        )
        for request, ttft_s in zip(segment.requests, times.tolist(), strict=True):
            found.append(
                make_record(
                    cell=cell.id, segment=segment.id, index=request.index, session=session,
                    is_warmup=request.is_warmup, start_ns=now, ttft_ns=int(ttft_s * 1e9),
                    n_prompt_tokens=cell.prompt_tokens, n_output_tokens=request.max_tokens,
                )
            )  # fmt: skip
            now += int(ttft_s * 1e9) + 20 * MS
    return found
