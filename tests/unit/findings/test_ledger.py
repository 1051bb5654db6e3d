"""A ledger of planted effects: what each set of features does is known, and so is what it adds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.comparison import compare_paths, pair_ratios
from harness.findings.evidence import Evidence
from harness.findings.finding import Cell, Comparison, LedgerRow
from harness.findings.ledger import Pair
from harness.findings.rules import RULES
from harness.findings.verdict import judge
from harness.plan.build import build_plan
from harness.scenario.acceleration import header
from tests.make_records import MS, make_evidence, make_record, make_scenario

SETS = ["false", '"paged_kv"', '"paged_kv,prefix_cache"', '"async_store"', "true"]
TIMES = {"": 1.0, "paged_kv": 0.5, "paged_kv,prefix_cache": 0.4, "async_store": 1.0}
ALL = "async_store,paged_kv,prefix_cache"
ABLATION = f"""
schema = 1
name = "ablation"
title = "Ablation"
seed = 7

[load]
concurrency = 2
requests_per_cell = 800
segments_per_cell = 4
warmup_requests = 0

[output]
tokens = 4

[axes]
accelerated = [{", ".join(SETS)}]

[analysis]
axis = "accelerated"
"""


def planted(text: str = ABLATION, confirmed: str = "") -> Evidence:
    """TTFT of 20 ms, CV 20 %, times what the features do; one cell may answer otherwise."""
    scenario = make_scenario(text)
    plan, rng = build_plan(scenario), np.random.default_rng(3)
    rows, now = [], 1_000 * MS
    for segment in plan.segments:
        asked = plan.cell(segment.cell).accelerated
        words = ALL if asked is True else header(asked).replace("false", "")
        times = TIMES.get(words, 0.4)
        for request in segment.requests:
            ttft = int(20 * MS * times * rng.lognormal(0, 0.2))
            row = make_record(
                cell=segment.cell, segment=segment.id, index=request.index, start_ns=now,
                ttft_ns=ttft, n_output_tokens=request.max_tokens,
                features=tuple(filter(None, words.split(","))),
            )  # fmt: skip
            rows.append(replace(row, features=()) if segment.cell == confirmed else row)
            now += ttft + 20 * MS
    return make_evidence(rows, scenario)


def judged(evidence: Evidence) -> tuple[Comparison, list[Cell]]:
    """Its comparison and its cells."""
    cells = summarise_cells(evidence, [doubt for rule in RULES for doubt in rule(evidence)])
    found = compare_paths(evidence, cells)
    assert found is not None
    return found, cells


@pytest.fixture(scope="module")
def ablation() -> tuple[Evidence, Comparison, list[Cell]]:
    evidence = planted()
    return evidence, *judged(evidence)


def ttft(row: LedgerRow, q: float = 0.99) -> tuple[float, float, str]:
    """Bounds and word of TTFT."""
    (item,) = [item for item in row.metrics if (item.metric, item.q) == ("ttft_s", q)]
    assert item.low is not None
    assert item.high is not None
    return item.low, item.high, item.verdict


def pairs_of(found: Comparison, cells: list[Cell]) -> list[Pair]:
    """The pairs of cells that the ledger's rows compare."""
    known = {cell.id: cell for cell in cells}
    return [(known[row.reference], known[row.cell]) for row in found.ledger]


def test_a_row_for_each_set_and_for_what_it_adds(
    ablation: tuple[Evidence, Comparison, list[Cell]],
) -> None:
    """In the scenario's order; what a set adds follows it, over the largest set within it."""
    _, found, _ = ablation
    assert [(row.features, row.over) for row in found.ledger] == [
        ("paged_kv", False),
        ("paged_kv,prefix_cache", False),
        ("paged_kv,prefix_cache", "paged_kv"),
        ("async_store", False),
        (True, False),
        (True, "paged_kv,prefix_cache"),
    ]
    assert all(row.at == {} for row in found.ledger)
    assert {item.cell for item in found.metrics} == {"c01", "c02", "c03", "c04"}


@pytest.mark.parametrize("q", [0.5, 0.99])
def test_the_intervals_hold_what_was_planted(
    ablation: tuple[Evidence, Comparison, list[Cell]], q: float
) -> None:
    """Ratios of 0.5, 0.4, 0.4 over 0.5, 1, 0.4 and 1, at the median and at P99."""
    _, found, _ = ablation
    truth = (0.5, 0.4, 0.8, 1.0, 0.4, 1.0)
    for row, ratio in zip(found.ledger, truth, strict=True):
        low, high, word = ttft(row, q)
        assert low < ratio < high
        assert word == ("faster" if ratio < 1 else word)
    assert ttft(found.ledger[0], q)[1] < 0.6


def test_a_row_holds_every_latency_beside_its_median(
    ablation: tuple[Evidence, Comparison, list[Cell]],
) -> None:
    """TTFT, TPOT, E2E and ITL, P99 first."""
    _, found, _ = ablation
    assert [(item.metric, item.q) for item in found.ledger[0].metrics] == [
        (metric, q) for metric in ("ttft_s", "tpot_s", "e2e_s", "itl_s") for q in (0.99, 0.5)
    ]


def test_intervals_hold_together(ablation: tuple[Evidence, Comparison, list[Cell]]) -> None:
    """Six rows share the error that one pair has alone, those over another set among them."""
    evidence, found, cells = ablation
    pair = (cells[0], cells[1])
    (alone,) = pair_ratios(evidence, evidence, [pair], "ttft_s", 0.5)
    first, *_ = pair_ratios(evidence, evidence, [pair] * 6, "ttft_s", 0.5)
    assert alone is not None
    assert first is not None
    assert (alone.z, first.z) == pytest.approx((ndtri(1 - 0.05 / 2), ndtri(1 - 0.05 / 12)))
    low, high, _ = ttft(found.ledger[0], 0.5)
    z_se = math.log(high / low) / 2
    everyone = pair_ratios(evidence, evidence, pairs_of(found, cells), "ttft_s", 0.5)[0]
    assert everyone is not None
    assert z_se == pytest.approx(first.z * everyone.log_se)


def test_one_set_has_no_ledger() -> None:
    """Baseline beside accelerated is a comparison, as ever."""
    found, _ = judged(planted(ABLATION.replace(", ".join(SETS), "false, true")))
    assert found.ledger == []
    assert found.candidate == "accelerated"


def test_a_set_that_did_not_run_decides_nothing() -> None:
    """The answers of a cell name no features: its rows are undecided, whatever its times."""
    found, cells = judged(planted(confirmed="c02"))
    assert cells[2].state == "invalid-client"
    words = {ttft(row)[2] for row in found.ledger if "c02" in (row.cell, row.reference)}
    assert words == {"undecided"}
    assert ttft(found.ledger[0])[2] == "faster"


def test_paths_are_asked_without_a_curve(
    ablation: tuple[Evidence, Comparison, list[Cell]],
) -> None:
    """No breakpoint is looked for along sets of features; the verdict is the comparison."""
    evidence, found, cells = ablation
    breaks = find_breaks(evidence, cells)
    assert breaks == []
    verdict = judge(evidence, cells, breaks, found)
    assert verdict.status == "pass"
    assert "TTFT P99 beside the baseline: faster in 3 of 4 cells, most with" in verdict.text
    assert "E2E P99 beside the baseline" in verdict.text
