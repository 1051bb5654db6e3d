"""A path that answers otherwise is never called faster, and the verdict says where it differs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.base.errors import RecordError
from harness.cli.verdict import EXIT_OF_STATUS
from harness.findings.baseline import compare_runs
from harness.findings.cells import summarise_cells
from harness.findings.comparison import compare_paths
from harness.findings.evidence import Evidence
from harness.findings.fidelity import told_answers
from harness.findings.finding import Comparison, Verdict
from harness.findings.verdict import judge
from harness.plan.build import build_plan
from harness.records.fidelity import Fidelity, read_fidelity
from harness.records.run import RunFolder
from tests.make_fidelity import make_fidelity, make_path
from tests.make_records import MS, make_evidence, make_record, make_scenario

FEATURES: dict[object, tuple[str, ...]] = {
    False: (), True: ("paged_kv", "prefix_cache"), "paged_kv": ("paged_kv",),
}  # fmt: skip
PROBLEM = "penalties: KL mean 0.02, limit 1e-07; most, 0.3, at token 3 after prompt 9"
TEXT = """
schema = 1
name = "small"
title = "Small"

[load]
concurrency = 2
requests_per_cell = 400
segments_per_cell = 4
warmup_requests = 0

[axes]
prompt_tokens = [64, 128]
accelerated = [false, true, "paged_kv"]

[analysis]
q = 0.5
"""


def halved(fidelity: Fidelity | None, *, is_bundled: bool = True, times: float = 1.0) -> Evidence:
    """A run whose accelerated paths take half the time."""
    scenario, rows, now = make_scenario(TEXT), [], 1_000 * MS
    plan, rng = build_plan(scenario), np.random.default_rng(5)
    for segment in plan.segments:
        asked = plan.cell(segment.cell).accelerated
        for request in segment.requests:
            ttft = int(20 * MS * (0.5 if asked else 1.0) * times * rng.lognormal(0, 0.1))
            row = make_record(
                cell=segment.cell,
                segment=segment.id,
                index=request.index,
                start_ns=now,
                ttft_ns=ttft,
                features=FEATURES[asked],
            )
            rows.append(row)
            now += ttft + 20 * MS
    evidence = make_evidence(rows, scenario)
    run = {**evidence.run, "is_bundled": is_bundled}
    return replace(evidence, fidelity=fidelity, run=run)


def judged(evidence: Evidence) -> tuple[Comparison, Verdict]:
    cells = summarise_cells(evidence, [])
    comparison = compare_paths(evidence, cells)
    assert comparison is not None
    return comparison, judge(evidence, cells, [], comparison)


def words_of(comparison: Comparison, evidence: Evidence, *, asked: object) -> set[str]:
    """The words of all pairs with cells that asked for this, ledger rows included."""
    cells = {cell.id for cell in evidence.plan.cells if cell.accelerated == asked}
    items = [*comparison.metrics, *(item for row in comparison.ledger for item in row.metrics)]
    return {item.verdict for item in items if item.metric == "ttft_s" and item.cell in cells}


def test_equal_answers_leave_faster_as_it_is() -> None:
    """Both paths were compared and are the same: faster is said, and why it may be."""
    evidence = halved(make_fidelity(make_path("true"), make_path("paged_kv")))
    comparison, verdict = judged(evidence)
    assert words_of(comparison, evidence, asked="paged_kv") == {"faster"}
    assert "faster" in words_of(comparison, evidence, asked=True)
    assert verdict.status == "pass"
    assert told_answers(comparison.answers) == [
        "accelerated, paged_kv: compared before the load: the same answers as the baseline"
    ]


def test_other_answers_are_no_speed_up() -> None:
    """The path that differs loses the word in every pair it stands in; the other one keeps it."""
    evidence = halved(make_fidelity(make_path("true", PROBLEM), make_path("paged_kv")))
    comparison, verdict = judged(evidence)
    assert words_of(comparison, evidence, asked=True) == {"differs"}
    assert words_of(comparison, evidence, asked="paged_kv") == {"faster"}
    assert verdict.status == "suspect"
    assert EXIT_OF_STATUS[verdict.status] == 5
    assert f"The accelerated path gives other answers than the baseline ({PROBLEM})" in verdict.text
    assert "no speed-up" in verdict.text
    assert PROBLEM in told_answers(comparison.answers)[0]


def test_a_smaller_set_that_differs_spoils_what_is_added_to_it() -> None:
    """In the ledger a row over a set with other answers differs too."""
    evidence = halved(make_fidelity(make_path("true"), make_path("paged_kv", PROBLEM)))
    comparison, _ = judged(evidence)
    over = [row for row in comparison.ledger if row.over == "paged_kv"]
    assert over
    assert {item.verdict for row in over for item in row.metrics} == {"differs"}
    beside = [row for row in comparison.ledger if row.features is True and row.over is False]
    assert all("differs" not in {item.verdict for item in row.metrics} for row in beside)


def test_lossy_features_within_their_limits_are_said_to_be_lossy() -> None:
    """Their speed counts, and what they may change is told."""
    evidence = halved(make_fidelity(make_path("true", lossy=("packed_state",))))
    comparison, verdict = judged(evidence)
    assert verdict.status == "pass"
    assert "within the limits of packed_state" in told_answers(comparison.answers)[0]


@pytest.mark.parametrize(
    ("is_bundled", "said"), [(True, "fidelity = true in the scenario"), (False, "bundled server")]
)
def test_answers_that_nobody_compared_are_a_caveat(*, is_bundled: bool, said: str) -> None:
    """Without a comparison faster is said, with the doubt beside it."""
    evidence = halved(None, is_bundled=is_bundled)
    comparison, verdict = judged(evidence)
    assert words_of(comparison, evidence, asked="paged_kv") == {"faster"}
    assert verdict.status == "pass"
    assert {each.verdict for each in comparison.answers} == {"not checked"}
    assert said in told_answers(comparison.answers)[0]


def test_other_answers_are_no_improvement_on_an_earlier_run() -> None:
    """A build whose accelerated path got faster by answering otherwise is undecided there."""
    before = halved(None)
    after = halved(make_fidelity(make_path("true", PROBLEM)), times=0.6)
    before = replace(before, run={**before.run, "id": "before"})
    sides = [(each, summarise_cells(each, [])) for each in (before, after)]
    found = compare_runs(*sides[0], *sides[1])
    words = {row.cell: row.verdict for row in found.metrics}
    for cell in after.plan.cells:
        expected = "undecided" if cell.accelerated is True else "improvement"
        assert words[cell.id] == expected
    assert any("no improvement" in caveat for caveat in found.caveats)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    """Its path and the first wrong field; a whole one reads back."""
    run, good = RunFolder(tmp_path), make_fidelity(make_path("true", PROBLEM))
    run.write_json("fidelity.json", good.model_dump(mode="json", by_alias=True))
    assert read_fidelity(run) == good
    value = json.loads((tmp_path / "fidelity.json").read_text())
    value["paths"][0]["settings"][0]["positions"]["n"] = "many"
    run.write_json("fidelity.json", value)
    with pytest.raises(RecordError, match=r"fidelity.json: damaged: paths.0.settings.0.positions"):
        read_fidelity(run)
