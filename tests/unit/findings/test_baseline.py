from dataclasses import replace

import pytest

from harness.base.errors import SetupError
from harness.findings.baseline import ONE_RUN, compare_runs
from harness.findings.baseline_words import baseline_sentence, ratio_words
from harness.findings.cells import summarise_cells
from harness.findings.evidence import Evidence
from harness.findings.finding import BaselineComparison, Cell, ComparedMetric
from harness.findings.rules import RULES
from harness.plan.build import build_plan
from harness.records.request import Outcome, RequestRecord
from harness.scenario.schema import Scenario
from tests.make_records import SMALL, make_evidence, make_scenario, records_of

GRID = SMALL.replace("requests_per_cell = 8", "requests_per_cell = 600")
RUN = {"target": "http://127.0.0.1:1", "started": "2026-01-01T00:00:00+00:00", "status": "complete"}


def measured(
    run_id: str, seed: int, slower: dict[str, float] | None = None, text: str = GRID
) -> Evidence:
    """A healthy run in which TTFT of some cells is multiplied."""
    scenario = make_scenario(text)
    times = slower or {}
    rows = [
        stretched(row, times.get(row.cell, 1.0))
        for row in records_of(build_plan(scenario), seed=seed)
    ]
    return evidence_of(run_id, rows, scenario)


def stretched(row: RequestRecord, times: float) -> RequestRecord:
    assert row.first_token_ns is not None
    later = round((times - 1) * (row.first_token_ns - row.intended_ns))
    moved = tuple(stamp + later for stamp in row.token_ns)
    return replace(
        row,
        first_token_ns=row.first_token_ns + later,
        token_ns=moved,
        chunk_ns=moved,
        done_ns=moved[-1],
    )


def evidence_of(run_id: str, rows: list[RequestRecord], scenario: Scenario) -> Evidence:
    return make_evidence(rows, scenario, run={**RUN, "id": run_id})


def cells_of(evidence: Evidence) -> list[Cell]:
    return summarise_cells(evidence, [doubt for rule in RULES for doubt in rule(evidence)])


def compared(before: Evidence, after: Evidence) -> BaselineComparison:
    return compare_runs(before, cells_of(before), after, cells_of(after))


def verdicts(found: BaselineComparison) -> dict[str, str]:
    return {row.cell: row.verdict for row in found.metrics}


@pytest.fixture(scope="module")
def before() -> Evidence:
    return measured("before", 1)


def test_nothing_changed_passes(before: Evidence) -> None:
    """Four cells of 600 requests with CV 10 %: every cell is surely not slower by a quarter."""
    found = compared(before, measured("after", 2, text=GRID + "\n[limits]\nregression = 0.25\n"))
    assert found.verdict == "pass"
    assert set(verdicts(found).values()) == {"pass"}
    assert found.caveats == [ONE_RUN]
    assert found.detectable_effect is not None
    assert 0.25 < found.detectable_effect < 1.0
    assert baseline_sentence(found, []) == (
        "TTFT P99 is not slower than in run before by more than 25 % in any cell."
    )


def test_one_slower_cell_is_a_regression(before: Evidence) -> None:
    """A cell that takes twice as long is named with ratio and interval; the others are not."""
    after = measured("after", 2, {"c03": 2.0})
    found = compared(before, after)
    assert found.verdict == "regression"
    assert verdicts(found)["c03"] == "regression"
    assert "regression" not in [word for cell, word in verdicts(found).items() if cell != "c03"]
    row = next(row for row in found.metrics if row.cell == "c03")
    assert row.low is not None
    assert row.high is not None
    assert 1.5 < row.low < 2.0 < row.high < 2.7
    said = baseline_sentence(found, cells_of(after))
    assert "TTFT P99 is slower than in run before by more than 10 % in 1 of 4 cells" in said
    assert "most on the accelerated path, at prompt_tokens 128 (" in said


def test_faster_everywhere_is_an_improvement(before: Evidence) -> None:
    """Half the time in every cell."""
    after = measured("after", 2, dict.fromkeys(["c00", "c01", "c02", "c03"], 0.5))
    found = compared(before, after)
    assert found.verdict == "improvement"
    assert "is faster than in run before in 4 of 4 cells" in baseline_sentence(
        found, cells_of(after)
    )


def test_too_few_requests_are_undecided() -> None:
    """Eight requests carry no P99: undecided, and no absurd size is said to be visible."""
    found = compared(measured("a", 1, text=SMALL), measured("b", 2, text=SMALL))
    assert found.verdict == "undecided"
    assert set(verdicts(found).values()) == {"undecided"}
    assert "not even one of 1000 % was sure to be seen" in baseline_sentence(found, [])
    told = found.model_copy(update={"detectable_effect": 0.5})
    assert "a slowdown above 50 % would have been seen everywhere" in baseline_sentence(told, [])


def test_cells_are_matched_by_factors_and_others_named(before: Evidence) -> None:
    """Another order and another length: matched where equal, named where not."""
    after = measured("after", 2, text=GRID.replace("[64, 128]", "[256, 128]"))
    found = compared(before, after)
    assert [row.cell for row in found.metrics] == ["c02", "c03"]
    assert all(row.ratio is not None and 0.8 < row.ratio < 1.25 for row in found.metrics)
    assert found.unmatched == [
        "c00: not in the baseline",
        "c01: not in the baseline",
        "c00 of the baseline: not here",
        "c01 of the baseline: not here",
    ]


def test_a_void_cell_is_not_judged(before: Evidence) -> None:
    """Half of a cell's rows are missing in the baseline: undecided there, with the reason."""
    rows = records_of(build_plan(before.scenario))
    cut = [row for row in rows if row.cell != "c01" or row.index < 200]
    found = compared(evidence_of("cut", cut, before.scenario), measured("after", 2))
    assert verdicts(found)["c01"] == "undecided"
    assert "c01 is not judged: the cell is partial in the baseline." in found.caveats
    assert found.verdict == "undecided"


def test_a_cell_without_values_is_undecided(before: Evidence) -> None:
    """Nothing completed in one cell here: no ratio, no made-up bound, nothing detectable."""
    rows = [
        replace(row, outcome=Outcome.RESET) if row.cell == "c02" else row
        for row in records_of(build_plan(before.scenario), seed=3)
    ]
    found = compared(before, evidence_of("after", rows, before.scenario))
    row = next(row for row in found.metrics if row.cell == "c02")
    assert (row.ratio, row.low, row.high, row.verdict) == (None, None, None, "undecided")
    assert found.detectable_effect is None


def test_what_is_no_baseline_is_refused(before: Evidence) -> None:
    """The run itself, a run of nothing, another experiment."""
    with pytest.raises(SetupError, match="its own baseline"):
        compared(before, before)
    rows = [replace(row, outcome=Outcome.RESET) for row in records_of(before.plan)]
    with pytest.raises(SetupError, match="none of its requests completed"):
        compared(evidence_of("empty", rows, before.scenario), before)
    other = measured("other", 1, text=GRID.replace("concurrency = 2", "concurrency = 3"))
    with pytest.raises(SetupError, match=r"load\.concurrency: 3 in the baseline, 2 here"):
        compared(other, before)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.7, 2.6, "2.1x, 1.7 to 2.6"), (0.4, 6.3e20, "2.1x, 0.4 to ?"), (1e-9, 3.0, "2.1x, ? to 3")],
)
def test_a_bound_that_says_nothing_is_a_question_mark(low: float, high: float, said: str) -> None:
    """Beyond a hundred times, either way, no number is shown."""
    row = ComparedMetric(
        metric="ttft_s", q=0.99, cell="c00", ratio=2.1, low=low, high=high, verdict="undecided"
    )
    assert ratio_words(row) == said
