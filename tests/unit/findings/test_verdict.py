"""The order of verdicts, which is the order of exit codes: 5, 1, 4, 3, 0."""

from dataclasses import replace
from itertools import combinations
from typing import Literal

import pytest

from harness.cli.verdict import EXIT_OF_STATUS
from harness.findings.breaks import find_breaks
from harness.findings.cells import summarise_cells
from harness.findings.finding import BaselineComparison, ComparedMetric, StopFigures, Verdict
from harness.findings.rules import RULES
from harness.findings.verdict import judge
from harness.plan.build import build_plan
from harness.records.request import Outcome
from tests.make_records import SMALL, make_evidence, make_scenario, records_of

Word = Literal["pass", "regression", "improvement", "undecided"]
CODES = {"partial": 5, "undecided": 5, "failed": 1, "regression": 4, "slo": 3}
WORDS = {
    "partial": "The run is partial",
    "undecided": "is undecided in 1 of 1 cell",
    "failed": "requests failed",
    "regression": "is slower than in run",
    "slo": "is missed in",
}
ORDER = (5, 1, 4, 3)


def against(word: Word) -> BaselineComparison:
    """A comparison with this outcome."""
    row = ComparedMetric(
        metric="ttft_s", q=0.99, cell="c00", ratio=2.0, low=1.5, high=3.0, verdict=word
    )
    return BaselineComparison(
        reference="earlier", candidate="now", limit=0.1, confidence=0.95, verdict=word,
        detectable_effect=0.3, metrics=[row], unmatched=[], caveats=[],
    )  # fmt: skip


def verdict_when(holds: set[str], word: Word | None = None) -> Verdict:
    """The verdict of a run for which all of this holds."""
    scenario = make_scenario(SMALL + ("\n[limits]\nslo_ttft_s = 1e-3\n" if "slo" in holds else ""))
    rows = records_of(build_plan(scenario))
    if "failed" in holds:
        rows = [
            replace(row, outcome=Outcome.HTTP_ERROR)
            if row.cell == "c01" and row.index == 3
            else row
            for row in rows
        ]
    if "partial" in holds:
        rows = [row for row in rows if row.cell != "c00" or row.index < 5]
    evidence = make_evidence(rows, scenario)
    cells = summarise_cells(evidence, [doubt for rule in RULES for doubt in rule(evidence)])
    words: list[Word] = [w for w in ("regression", "undecided") if w in holds]
    found = word or (words[0] if words else None)
    breaks = find_breaks(evidence, cells)
    return judge(evidence, cells, breaks, None, against(found) if found else None)


SETS = [
    set(some)
    for size in (1, 2, 3, 4)
    for some in combinations(CODES, size)
    if not {"regression", "undecided"} <= set(some)
]


@pytest.mark.parametrize("holds", SETS, ids=["+".join(sorted(some)) for some in SETS])
def test_the_first_that_holds_decides_and_all_are_said(holds: set[str]) -> None:
    """5 before 1 before 4 before 3, whatever else holds; nothing that holds is left unsaid."""
    verdict = verdict_when(holds)
    codes = {CODES[name] for name in holds}
    assert EXIT_OF_STATUS[verdict.status] == next(code for code in ORDER if code in codes)
    for name in holds:
        assert WORDS[name] in verdict.text


@pytest.mark.parametrize(("word", "status"), [("pass", "pass"), ("improvement", "improvement")])
def test_good_news_is_exit_0(word: Word, status: str) -> None:
    """Compared and not slower, or faster: exit 0, and it is said; a missed SLO goes first."""
    verdict = verdict_when(set(), word)
    assert verdict.status == status
    assert EXIT_OF_STATUS[verdict.status] == 0
    assert "run earlier" in verdict.text
    assert verdict_when({"slo"}, word).status == "slo_missed"


def test_failed_cells_add_no_doubt_to_a_failed_run() -> None:
    """A cell is not compared because it failed, and that is why the run failed: exit 1, not 5."""
    scenario = make_scenario()
    rows = [
        replace(row, outcome=Outcome.HTTP_ERROR) if row.index % 2 else row
        for row in records_of(build_plan(scenario))
    ]
    evidence = make_evidence(rows, scenario)
    cells = summarise_cells(evidence, [doubt for rule in RULES for doubt in rule(evidence)])
    verdict = judge(evidence, cells, [], None, against("undecided"))
    assert verdict.status == "requests_failed"
    assert "is undecided in 1 of 1 cell" in verdict.text


def test_a_run_that_is_no_evidence_says_that_alone() -> None:
    """Nothing completed: failed requests and regressions have no meaning then."""
    scenario = make_scenario()
    rows = [replace(row, outcome=Outcome.RESET) for row in records_of(build_plan(scenario))]
    evidence = make_evidence(rows, scenario)
    cells = summarise_cells(evidence, [doubt for rule in RULES for doubt in rule(evidence)])
    verdict = judge(evidence, cells, [], None, against("regression"))
    assert verdict.status == "invalid"
    assert "slower" not in verdict.text


def test_a_run_that_judges_nothing_does_not_pass() -> None:
    """No curve, no pair and no limit was judged: exit 5; a limit that holds is an answer."""
    verdict = verdict_when(set())
    assert EXIT_OF_STATUS[verdict.status] == 5
    assert verdict.text.startswith("Nothing that was asked can be judged.")
    scenario = make_scenario(SMALL + "\n[limits]\nslo_ttft_s = 10.0\n")
    evidence = make_evidence(records_of(build_plan(scenario)), scenario)
    cells = summarise_cells(evidence, [])
    assert judge(evidence, cells, find_breaks(evidence, cells), None).status == "pass"


def test_too_few_requests_are_said_with_their_number() -> None:
    """P99 with 95 % confidence needs 368 independent requests: silent where half the cells do."""
    scenario = make_scenario()
    evidence = make_evidence(records_of(build_plan(scenario)), scenario)
    few = summarise_cells(evidence, [])
    said = judge(evidence, few, [], None).text
    assert "Too few requests for TTFT P99: an upper bound needs 368 independent ones" in said
    enough = [cell.model_copy(update={"n_effective": 368.0}) for cell in few[::2]]
    assert "Too few" not in judge(evidence, [*enough, *few[1::2]], [], None).text


def test_how_cells_ended_is_said_where_they_could_stop() -> None:
    """Cells by state where the scenario asked for a width; nothing of it where it did not."""
    scenario = make_scenario()
    evidence = make_evidence(records_of(build_plan(scenario)), scenario)
    fixed = summarise_cells(evidence, [])
    assert "converged" not in judge(evidence, fixed, [], None).text
    stop = StopFigures(half_width=0.04, n_needed=0, n_starts=2, r_hat=1.0, n_cut=0)
    ended = [cell.model_copy(update={"stop": stop, "state": "converged"}) for cell in fixed]
    ended[0] = ended[0].model_copy(update={"state": "wide"})
    said = judge(evidence, ended, [], None).text
    n = len(fixed)
    assert f"{n - 1} of {n} cells converged to the width asked for, 1 stayed wide." in said
