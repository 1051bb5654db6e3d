from dataclasses import replace

import pytest

from harness.findings.evidence import Evidence
from harness.findings.rules import (
    RULES,
    Doubt,
    clock_step,
    coalesced_stream,
    dispatch_lag,
    failed_requests,
    lengths,
    lost_workers,
    missing_requests,
    path_mismatch,
    planted_faults,
    sessions,
    stamp_source,
)
from harness.plan.build import build_plan
from harness.records.request import Outcome, RequestRecord, Stamps
from harness.scenario.schema import Scenario
from tests.make_records import MS, SMALL, make_evidence, make_scenario, records_of

PLAN = build_plan(make_scenario())
HEALTHY = records_of(PLAN)


def changed(cell: str, n: int, **changes: object) -> list[RequestRecord]:
    """The healthy run with the first n measured rows of a cell changed."""
    rows, left = [], n
    for row in HEALTHY:
        if row.cell == cell and not row.is_warmup and left:
            rows.append(replace(row, **changes))  # type: ignore[arg-type]
            left -= 1
        else:
            rows.append(row)
    return rows


def test_a_healthy_run_raises_no_doubt() -> None:
    """No rule fires on a run without a fault."""
    assert [doubt for rule in RULES for doubt in rule(make_evidence())] == []


def test_every_rule_is_listed() -> None:
    """A rule file that nobody calls would be a silent gap."""
    from pathlib import Path

    import harness.findings.rules as package

    files = {p.stem for p in Path(package.__file__).parent.glob("*.py")} - {"__init__", "rule"}
    assert {rule.__module__.rsplit(".", 1)[1] for rule in RULES} == files


def only(doubts: list[Doubt]) -> Doubt:
    assert len(doubts) == 1, doubts
    return doubts[0]


def test_planted_faults_are_named_where_the_server_is_ours() -> None:
    """A run of a slowed server never passes for one of a plain one; another's server has none."""
    scenario = make_scenario()
    server = scenario.target.server.model_copy(update={"faults": "attention:40%"})
    for url, n in ((None, 1), ("http://127.0.0.1:1", 0)):
        target = scenario.target.model_copy(update={"server": server, "url": url})
        evidence = make_evidence(scenario=scenario.model_copy(update={"target": target}))
        doubts = planted_faults.check(evidence)
        assert len(doubts) == n
        assert all("attention:40%" in doubt.text for doubt in doubts)


@pytest.mark.parametrize("outcome", [o for o in Outcome if not (o.is_ok or o is Outcome.CANCELLED)])
def test_failures_beyond_the_limit_fail_the_cell(outcome: Outcome) -> None:
    """Every outcome that is no whole answer counts; the message names share, kind and limit."""
    evidence = make_evidence(changed("c01", 2, outcome=outcome))
    doubt = only(failed_requests.check(evidence))
    assert (doubt.cell, doubt.effect) == ("c01", "failed")
    assert "2 of 8 requests failed (25.0%)" in doubt.text
    assert outcome.value in doubt.text
    assert "limit is 1.0%" in doubt.text


def test_missing_rows_make_a_cell_partial() -> None:
    """One row short of the plan is enough; what to do is said, and the killed writer is named."""
    evidence = make_evidence(HEALTHY[:-1], torn=("w0.arrows",))
    cell, run, shard = missing_requests.check(evidence)
    assert (cell.cell, cell.effect) == (HEALTHY[-1].cell, "partial")
    assert "11 of 12 planned" in cell.text
    assert "1 of 48 planned requests" in run.text
    assert "--resume" in run.text
    assert "w0.arrows" in shard.text


def test_a_cancelled_request_is_missing_and_no_failure() -> None:
    """We stopped it: the cell is partial, the target's failing share is untouched."""
    evidence = make_evidence(changed("c01", 1, outcome=Outcome.CANCELLED))
    cell, run = missing_requests.check(evidence)
    assert (cell.cell, cell.effect) == ("c01", "partial")
    assert "1 cancelled when it was stopped" in run.text
    assert failed_requests.check(evidence) == []


def test_rows_lost_after_they_were_acknowledged_are_said() -> None:
    """Even where the plan is complete: the store broke its word."""
    doubt = only(missing_requests.check(make_evidence(lost=(("w0.arrows", 3),))))
    assert "w0.arrows lacks 3 acknowledged rows" in doubt.text


def resumed(*later: dict[str, str], **second: object) -> Evidence:
    """A run whose last segment was cut in two: its second part in session 2, on another clock."""
    name = PLAN.segments[-1].id
    rows = [
        replace(row, session=2) if row.segment == name and row.index > 3 else row for row in HEALTHY
    ]
    again = replace(rows[-1], index=-1, is_warmup=True)
    run = {
        "id": "x", "target": "http://a", "started": "2026-01-01T00:00:00+00:00",
        "status": "complete",
        "sessions": [{"number": 1, "models": ["m"]}, {"number": 2, "models": ["m"], **second}],
    }  # fmt: skip
    return make_evidence([*rows, again], run=run, later_environments=later)


def test_a_resumed_run_says_so_and_is_whole() -> None:
    """One caveat with the number of sessions; warm-up sent again is no planned request."""
    evidence = resumed({"python": "3.11"})
    doubt = only([doubt for rule in RULES for doubt in rule(evidence)])
    assert "resumed: it was made in 2 sessions; 1 segment was cut" in doubt.text
    assert len(evidence.planned) == PLAN.n_requests


def test_a_lost_load_process_is_named() -> None:
    """Each process that died or hung is a doubt on the run, with its name and segment."""
    evidence = make_evidence(client={"lost_workers": ["worker 1 (process 7) died in segment s2"]})
    assert "worker 1 (process 7) died in segment s2" in only(lost_workers.check(evidence)).text


def test_sessions_that_differ_are_said() -> None:
    """Another environment, another version of the target: what changed is named."""
    _, environment, target = sessions.check(
        resumed({"python": "3.12", "cpu": "other"}, models=["m", "n"])
    )
    assert "cpu, python changed" in environment.text
    assert "models changed" in target.text


def test_a_request_sent_again_after_a_stop_counts_once() -> None:
    """Cancelled in session 1, whole in session 2: the later row stands, nothing is missing."""
    cancelled = replace(HEALTHY[5], outcome=Outcome.CANCELLED)
    again = replace(HEALTHY[5], session=2)
    evidence = make_evidence([*HEALTHY[:5], cancelled, *HEALTHY[6:], again])
    assert len(evidence.planned) == len(evidence.answered) == PLAN.n_requests
    assert evidence.n_missing == 0


@pytest.mark.parametrize(("cell", "features"), [("c00", ("paged_kv",)), ("c01", ())])
def test_an_answer_from_the_wrong_path_voids_the_cell(cell: str, features: tuple[str, ...]) -> None:
    """Baseline answered accelerated, or the other way round: both are caught."""
    assert PLAN.cell(cell).accelerated == (not features)
    doubt = only(path_mismatch.check(make_evidence(changed(cell, 1, features=features))))
    assert (doubt.cell, doubt.effect) == (cell, "invalid-client")


LISTS = make_scenario(
    SMALL.replace("[false, true]", '[false, "paged_kv", "paged_kv,prefix_cache"]')
)
PAGED, SHARED = ("paged_kv",), ("prefix_cache", "paged_kv")


def answered(scenario: Scenario, cell: str, n: int, features: tuple[str, ...]) -> list[Doubt]:
    """The doubts of a run whose answers confirm their cells, but for n answers of one cell."""
    plan, left = build_plan(scenario), n
    ran = {False: (), True: PAGED, "paged_kv": PAGED, "paged_kv,prefix_cache": SHARED}
    rows = [replace(row, features=ran[plan.cell(row.cell).accelerated]) for row in records_of(plan)]
    for number, row in enumerate(rows):
        if row.cell == cell and not row.is_warmup and left:
            rows[number] = replace(row, features=features)
            left -= 1
    return path_mismatch.check(make_evidence(rows, scenario))


def test_a_feature_list_is_confirmed_by_its_features_in_any_order() -> None:
    """A run whose answers say exactly what each cell asked for raises no doubt."""
    assert answered(LISTS, "c00", 0, ()) == []


@pytest.mark.parametrize(
    ("cell", "features", "said"),
    [
        (
            "c00",
            PAGED,
            "1 of 8 answers do not confirm the baseline path: 7 ran none, 1 ran paged_kv",
        ),
        ("c01", SHARED, "do not confirm exactly the features paged_kv: 7 ran paged_kv, 1 ran"),
        ("c02", PAGED, "do not confirm exactly the features paged_kv,prefix_cache"),
        ("c01", (), "7 ran paged_kv, 1 ran none"),
    ],
)
def test_other_features_than_those_listed_void_the_cell(
    cell: str, features: tuple[str, ...], said: str
) -> None:
    """One feature more, one less, or none: the ablation would name the wrong cause."""
    doubt = only(answered(LISTS, cell, 1, features))
    assert (doubt.cell, doubt.effect) == (cell, "invalid-client")
    assert said in doubt.text


def test_answers_of_one_cell_must_agree_with_each_other() -> None:
    """`true` names no feature, but two requests of a cell that ran different ones are no cell."""
    doubt = only(answered(make_scenario(), "c01", 3, SHARED))
    assert (doubt.cell, doubt.effect) == ("c01", "invalid-client")
    assert "different features: 5 ran paged_kv, 3 ran paged_kv,prefix_cache" in doubt.text


def test_a_mismatch_that_only_the_client_saw_voids_too() -> None:
    """The calls of a chain ran different features, whose union is what was asked for."""
    doubt = only(
        path_mismatch.check(make_evidence(changed("c01", 1, anomalies={"path_mismatch": 1})))
    )
    assert doubt.cell == "c01"


@pytest.mark.parametrize(
    ("lag_ms", "effect"), [(0.5, None), (2.0, "caveat"), (9.0, "invalid-client")]
)
def test_a_late_load_generator_is_said_and_then_voids(lag_ms: float, effect: str | None) -> None:
    """Of 90 ms: 0.6 % is nothing, 2.2 % is said, 10 % is more than half of the smallest jump."""
    late = [
        replace(
            row,
            sent_ns=row.intended_ns + int(lag_ms * MS),
            first_token_ns=row.intended_ns + 90 * MS,
        )
        if row.cell == "c00"
        else row
        for row in HEALTHY
    ]
    doubts = dispatch_lag.check(make_evidence(late))
    assert [(doubt.cell, doubt.effect) for doubt in doubts] == ([("c00", effect)] if effect else [])
    assert all(f"{lag_ms / 90:.1%} of this cell's quantile" in doubt.text for doubt in doubts)


def test_lag_that_no_slow_request_had_moves_nothing() -> None:
    """The fast requests were sent late, the slow ones were not: the quantile is the server's."""
    late = [
        replace(row, first_token_ns=row.intended_ns + 200 * MS)
        if row.index == 5
        else replace(row, sent_ns=row.intended_ns + 5 * MS)
        for row in HEALTHY
    ]
    assert dispatch_lag.check(make_evidence(late)) == []


def test_a_clock_step_voids_every_cell_with_kernel_stamps() -> None:
    """Kernel stamps are wall-clock stamps; user-space stamps do not care."""
    stepped = make_evidence(client={"clock_steps": 1, "stamps": "kernel"})
    assert {d.effect for d in clock_step.check(stepped)} == {"invalid-client"}
    assert len(clock_step.check(stepped)) == len(PLAN.cells)
    assert clock_step.check(make_evidence(client={"clock_steps": 1, "stamps": "user"})) == []


def test_user_space_stamps_are_said() -> None:
    """One such row is enough for a caveat on the run."""
    doubt = only(stamp_source.check(make_evidence(changed("c00", 1, stamps=Stamps.USER))))
    assert doubt.cell is None
    assert doubt.text.startswith("1 of")


def test_bursts_are_said() -> None:
    """Late reads and zero gaps are two different things, each with its share."""
    late = coalesced_stream.check(make_evidence(changed("c00", 8, late_read=(True,) * 4)))
    assert "read together" in only(late).text
    same = changed("c00", 8, chunk_ns=(5,) * 4)
    assert "same instant" in only(coalesced_stream.check(make_evidence(same))).text


def test_wrong_lengths_are_said() -> None:
    """A target that cuts prompts or answers changes what the axis means."""
    doubt = only(lengths.check(make_evidence(changed("c00", 8, n_prompt_tokens=32))))
    assert "prompts are 32.0 tokens long in the mean, 64.0 were asked" in doubt.text
    doubt = only(lengths.check(make_evidence(changed("c00", 8, n_output_tokens=None))))
    assert "does not count its answers" in doubt.text
