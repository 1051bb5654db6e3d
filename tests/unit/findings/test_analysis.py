from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.base.errors import RecordError
from harness.cli.analyse import analyse
from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.comparison import compare_paths
from harness.findings.evidence import Evidence
from harness.findings.finding import Breakpoint, Cell, Verdict
from harness.findings.rules import RULES
from harness.findings.validity import judge_validity
from harness.findings.verdict import judge
from harness.plan.build import build_plan
from harness.plan.codec import plan_to_json
from harness.plan.plan import Plan
from harness.records.request import Outcome, RequestRecord
from harness.records.run import RunFolder
from harness.records.shard import ShardWriter
from harness.report.context import build_report
from harness.scenario.schema import Scenario
from tests.make_records import MS, SMALL, make_evidence, make_record, make_scenario, records_of

LENGTHS = [64, 96, 128, 160, 192, 256, 320, 384]
GRID = (
    SMALL.replace("[64, 128]", str(LENGTHS))
    .replace("requests_per_cell = 8", "requests_per_cell = 600")
    .replace("segments_per_cell = 2", "segments_per_cell = 4")
)


def planted(plan: Plan, *, jump: float, seed: int = 5) -> list[RequestRecord]:
    """TTFT = 5 ms + 0.1 ms per token, CV 20 %; above 200 tokens the baseline waits for KV."""
    rng = np.random.default_rng(seed)
    records, now = [], 1_000 * MS
    for segment in plan.segments:
        cell = plan.cell(segment.cell)
        smooth = 5.0 + 0.1 * cell.prompt_tokens
        wait = jump * smooth if cell.prompt_tokens > 200 and not cell.accelerated else 0.0
        for request in segment.requests:
            factor = rng.lognormal(0, 0.2)
            phases = {"attention": smooth * factor / 1e3, "kv_wait": wait * factor / 1e3}
            server = sum(phases.values())
            records.append(
                make_record(
                    cell=cell.id,
                    segment=segment.id,
                    index=request.index,
                    is_warmup=request.is_warmup,
                    start_ns=now,
                    ttft_ns=int(server * 1e9) + MS,
                    n_prompt_tokens=cell.prompt_tokens,
                    n_output_tokens=request.max_tokens,
                    features=("paged_kv",) if cell.accelerated else (),
                    ttft_phases=phases,
                    server_ttft_s=server,
                    phases=phases,
                    server_e2e_s=server,
                )
            )
            now += 100 * MS
    return records


Analysed = tuple[Evidence, list[Cell], list[Breakpoint], Verdict]


def analysed(evidence: Evidence) -> Analysed:
    doubts = [doubt for rule in RULES for doubt in rule(evidence)]
    cells = summarise_cells(evidence, doubts)
    breaks = find_breaks(evidence, cells)
    return evidence, cells, breaks, judge(evidence, cells, breaks, compare_paths(evidence, cells))


@pytest.fixture(scope="module")
def jumping() -> Analysed:
    scenario = make_scenario(GRID)
    records = planted(build_plan(scenario), jump=1.0)
    return analysed(make_evidence(records, scenario))


def test_a_planted_jump_is_located_and_blamed(jumping: Analysed) -> None:
    """Baseline doubles between 192 and 256 for want of KV memory: place, size and culprit."""
    found = jumping[2][0]
    assert found.at == {"accelerated": False}
    assert (found.kind, found.low, found.high) == ("jump", 192.0, 256.0)
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low < 1.0 < found.effect_high
    assert found.component == "kv_wait"
    assert found.share_low is not None
    assert found.share_low > 0.5


def test_the_smooth_path_has_no_break(jumping: Analysed) -> None:
    """Same run, accelerated path: a line with an offset is no break, and says what would be."""
    found = jumping[2][1]
    assert found.at == {"accelerated": True}
    assert found.kind in ("none", "gradual")
    assert found.component is None
    assert found.ranked[0].component == "attention"


def test_the_verdict_says_it_in_words(jumping: Analysed) -> None:
    """A person reads place, size, culprit and what the accelerated path changes."""
    verdict = jumping[3]
    assert verdict.status == "pass"
    assert "breaks between 192 and 256 prompt tokens" in verdict.text
    assert "kv_wait" in verdict.text
    assert "The accelerated path is faster in 3 of 8 cells" in verdict.text


def test_intervals_hold_the_planted_quantile(jumping: Analysed) -> None:
    """P99 of a lognormal with CV 20 % is known: at least 14 of 16 intervals of 95 % hold it."""
    evidence, cells, _, _ = jumping
    n_hit = 0
    for planned, cell in zip(evidence.plan.cells, cells, strict=True):
        smooth = 5.0 + 0.1 * planned.prompt_tokens
        scale = 2.0 if planned.prompt_tokens > 200 and not planned.accelerated else 1.0
        truth = (scale * smooth * np.exp(0.2 * 2.3263) + 1.0) / 1e3
        estimate = cell.metrics["ttft_s"]["p99"]
        assert estimate.low is not None
        assert estimate.high is not None
        n_hit += estimate.low <= truth <= estimate.high
    assert n_hit >= 14


def test_phases_of_the_slowest_add_up(jumping: Analysed) -> None:
    """The tail's mean phases are the tail's mean latency, taken apart."""
    cell = next(cell for cell in jumping[1] if cell.factors["prompt_tokens"] == 384)
    tail = sum(cell.phases_tail_s.values())
    p99, p50 = cell.metrics["ttft_s"]["p99"].value, cell.metrics["ttft_s"]["p50"].value
    assert p50 is not None
    assert p99 is not None
    assert p50 < tail < 1.5 * p99


def test_a_cell_without_enough_requests_has_an_open_bound() -> None:
    """Eight requests carry no P99: the bound is null and the caveat says how many are needed."""
    cell = analysed(make_evidence())[1][0]
    assert cell.metrics["ttft_s"]["p99"].high is None
    assert any("both bounds need" in caveat for caveat in cell.caveats)


def statuses(records: list[RequestRecord], scenario: Scenario | None = None) -> tuple[str, str]:
    verdict = analysed(make_evidence(records, scenario))[3]
    return verdict.status, verdict.text


@pytest.mark.parametrize(
    ("share", "status", "said"),
    [(1.0, "invalid", "No request completed"), (0.2, "requests_failed", "the limit is 1.0%")],
)
def test_failures_decide_the_status(share: float, status: str, said: str) -> None:
    """Everything failed: no evidence. A part failed: exit 1, with share and limit."""
    records = records_of(build_plan(make_scenario()))
    n_bad = round(share * len(records))
    bad = [replace(row, outcome=Outcome.HTTP_ERROR) for row in records[len(records) - n_bad :]]
    found = statuses(records[: len(records) - n_bad] + bad)
    assert found[0] == status
    assert said in found[1]


def test_a_target_that_fails_everywhere_is_its_own_fault() -> None:
    """A third of every cell failed: exit 1, not an invalid measurement."""
    records = records_of(build_plan(make_scenario()))
    bad = [
        replace(row, outcome=Outcome.HTTP_ERROR) if row.index % 3 == 0 else row for row in records
    ]
    status, text = statuses(bad)
    assert status == "requests_failed"
    assert "requests failed" in text


def test_an_axis_below_zero_is_analysed_and_said() -> None:
    """Penalties may be negative: places are taken as log(x + shift), reported in x."""
    text = GRID.replace(
        f"prompt_tokens = {LENGTHS}", "frequency_penalty = [-2.0, -1.0, 0.0, 1.0, 2.0]"
    )
    text = text.replace("requests_per_cell = 600", "requests_per_cell = 40")
    scenario = make_scenario(text + '\n[analysis]\naxis = "frequency_penalty"\n')
    records = records_of(build_plan(scenario))
    found = analysed(make_evidence(records, scenario))[2][0]
    assert any("log(x + 3)" in caveat for caveat in found.caveats)


def test_an_slo_is_judged_on_usable_cells_only() -> None:
    """A cell void for the client's own lag cannot miss an SLO."""
    scenario = make_scenario(SMALL + "\n[limits]\nslo_ttft_s = 0.05\n")
    records = [
        replace(row, sent_ns=row.intended_ns + 90 * MS, first_token_ns=row.intended_ns + 95 * MS)
        if row.cell == "c00"
        else row
        for row in records_of(build_plan(scenario))
    ]
    assert statuses(records, scenario)[0] != "slo_missed"


def test_an_unfinished_run_is_undecided() -> None:
    """Half the rows: no pass in silence."""
    records = records_of(build_plan(make_scenario()))
    status, text = statuses(records[: len(records) // 2])
    assert status == "undecided"
    assert "partial" in text


def late(records: list[RequestRecord], cells: set[str]) -> list[RequestRecord]:
    """The same records, those of some cells sent late by half of what they took."""
    return [
        replace(row, sent_ns=(row.intended_ns + (row.first_token_ns or 0)) // 2)
        if row.cell in cells
        else row
        for row in records
    ]


def test_a_void_cell_is_left_out_and_named(jumping: Analysed) -> None:
    """One cell of sixteen void: the curves are judged without it, and the verdict says so."""
    scenario = jumping[0].scenario
    records = late(planted(build_plan(scenario), jump=1.0), {"c00"})
    status, text = statuses(records, scenario)
    assert status == "pass"
    assert "breaks between 192 and 256" in text
    assert "Left out as void: c00 (the load generator's own lag" in text


def test_voids_that_leave_a_curve_unjudged_are_undecided(jumping: Analysed) -> None:
    """Half of a curve's cells void: no pass in silence."""
    scenario = jumping[0].scenario
    cells = {cell.id for cell in jumping[0].plan.cells if cell.accelerated}
    status, text = statuses(late(planted(build_plan(scenario), jump=1.0), cells), scenario)
    assert status == "undecided"
    assert "1 of 2 curves cannot be judged" in text


def test_a_missed_slo_is_its_own_status() -> None:
    """Every cell within limits but one: slo_missed, with metric and limit."""
    scenario = make_scenario(SMALL + "\n[limits]\nslo_ttft_s = 0.012\n")
    evidence = make_evidence(scenario=scenario)
    verdict = analysed(evidence)[3]
    assert verdict.status == "slo_missed"
    assert "SLO of 12 ms on TTFT P99" in verdict.text


def test_the_report_is_a_pure_fold(jumping: Analysed) -> None:
    """The same evidence gives the same report, to the last digit, and it is valid JSON."""
    evidence, cells, breaks, verdict = jumping
    doubts = [doubt for rule in RULES for doubt in rule(evidence)]
    parts = {
        "evidence": evidence,
        "verdict": verdict,
        "validity": judge_validity(evidence, doubts),
        "cells": cells,
        "breakpoints": breaks,
        "comparison": compare_paths(evidence, cells),
    }
    one = build_report(**parts).model_dump_json(by_alias=True)  # type: ignore[arg-type]
    _, cells_again, breaks_again, _ = analysed(evidence)
    parts.update(cells=cells_again, breakpoints=breaks_again)
    assert build_report(**parts).model_dump_json(by_alias=True) == one  # type: ignore[arg-type]
    assert "NaN" not in one
    assert "Infinity" not in one


def test_rows_of_foreign_cells_are_refused(tmp_path: Path) -> None:
    """Records that do not belong to the plan are an error, not a silent extra."""
    scenario = make_scenario()
    run = RunFolder.create(tmp_path, "x")
    run.write_json("scenario.json", scenario.resolved())
    run.write_json("plan.json", plan_to_json(build_plan(scenario)))
    run.write_json("environment.json", {})
    run.write_json(
        "run.json", {"id": "x", "target": "t", "started": "2026-01-01", "status": "complete"}
    )
    writer = ShardWriter(run.shards, "w0")
    writer.append(make_record(cell="c99"))
    writer.close()
    with pytest.raises(RecordError, match="c99"):
        analyse(run)
