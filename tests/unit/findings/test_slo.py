"""A run against promises: kept, missed or undecided, by intervals and with failures counted."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.base.errors import ExitCode
from harness.findings.cells import summarise_cells
from harness.findings.slo import Judged, exit_code, judge_objectives
from harness.plan.build import build_plan
from harness.records.request import Outcome, RequestRecord
from harness.scenario.slo import Slo
from tests.make_records import SMALL, make_evidence, make_scenario, records_of

MANY = SMALL.replace("requests_per_cell = 8", "requests_per_cell = 600").replace(
    "prompt_tokens = [64, 128]", "prompt_tokens = [64]"
)


def judge(records: list[RequestRecord] | None = None, **objective: Any) -> list[Judged]:
    """Objectives of a run of 600 requests on each of two paths, TTFT about 8 ms."""
    scenario = make_scenario(MANY)
    rows = records if records is not None else records_of(build_plan(scenario))
    evidence = make_evidence(rows, scenario)
    given = {"name": "x", "metric": "ttft_s", "limit_s": 0.02, "target": 0.99, **objective}
    given = {key: value for key, value in given.items() if value is not None}
    slo = Slo.model_validate({"schema": 1, "service": "s", "objectives": [given]})
    return judge_objectives(slo, evidence, summarise_cells(evidence, []))


def failing(every: int) -> list[RequestRecord]:
    """The healthy run with every so many requests refused."""
    rows = records_of(build_plan(make_scenario(MANY)))
    return [
        replace(row, outcome=Outcome.HTTP_ERROR, first_token_ns=None) if n % every == 0 else row
        for n, row in enumerate(rows)
    ]


def test_a_limit_far_above_every_latency_is_kept() -> None:
    """600 of 600 within the limit: the lower bound is (a/2)^(1/n) by hand, above the target."""
    first, second = judge()
    assert (first.verdict, second.verdict) == ("kept", "kept")
    assert first.good is not None
    assert first.n_effective is not None
    assert first.good.low == pytest.approx(0.025 ** (1 / first.n_effective))
    assert exit_code([first, second]) == ExitCode.PASS


def test_a_limit_below_the_median_is_missed() -> None:
    """Half of the requests are beyond it; more data would not help."""
    judged = judge(limit_s=0.008)
    assert {each.verdict for each in judged} == {"missed"}
    assert exit_code(judged) == ExitCode.SLO_MISSED


def test_an_interval_around_the_target_is_undecided() -> None:
    """600 requests cannot keep 99.9 %: the number that could is named."""
    judged = judge(target=0.999)
    assert {each.verdict for each in judged} == {"undecided"}
    assert "needs 3688" in judged[0].reason
    assert exit_code(judged) == ExitCode.UNDECIDED


def test_failed_requests_are_bad_ones() -> None:
    """Every tenth is refused: 90 % good at best, however fast the others are."""
    judged = judge(failing(10))
    assert {each.verdict for each in judged} == {"missed"}
    good = [each.good.value for each in judged if each.good and each.good.value is not None]
    assert all(math.isclose(value, 0.9, abs_tol=0.02) for value in good)


def test_a_share_below_the_target_within_its_interval_is_undecided() -> None:
    """1.5 % bad of 600 where 1 % is promised: below, but not surely."""
    judged = judge(failing(66))
    assert all(each.good and each.good.value and each.good.value < 0.99 for each in judged)
    assert {each.verdict for each in judged} == {"undecided"}


def test_availability_is_judged_over_the_whole_run() -> None:
    """Both cells together: 1,200 requests of which none failed keep 99.5 %."""
    (kept,) = judge(metric="availability", limit_s=None, target=0.995)
    assert (kept.verdict, kept.cell, kept.n) == ("kept", None, 1200)
    (missed,) = judge(failing(20), metric="availability", limit_s=None, target=0.995)
    assert missed.verdict == "missed"


def test_a_miss_is_sure_whatever_else_is_undecided() -> None:
    """Exit 3 beside an undecided cell; 5 only where nothing is missed."""
    missed, undecided = judge(limit_s=0.008)[0], judge(target=0.999)[0]
    assert exit_code([undecided, missed]) == ExitCode.SLO_MISSED
    assert exit_code([undecided, judge()[0]]) == ExitCode.UNDECIDED


def test_a_run_without_requests_is_undecided() -> None:
    """Nothing measured is neither kept nor missed, and says so."""
    judged = judge([])
    assert {each.verdict for each in judged} == {"undecided"}
    assert all(each.reason for each in judged)
