from dataclasses import replace

import pytest

from harness.findings.rules import (
    RULES,
    Doubt,
    clock_step,
    coalesced_stream,
    dispatch_lag,
    failed_requests,
    lengths,
    missing_requests,
    path_mismatch,
    stamp_source,
)
from harness.plan.build import build_plan
from harness.records.request import Outcome, RequestRecord, Stamps
from tests.make_records import MS, make_evidence, make_scenario, records_of

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


@pytest.mark.parametrize("outcome", [o for o in Outcome if not o.is_ok])
def test_failures_beyond_the_limit_fail_the_cell(outcome: Outcome) -> None:
    """Every outcome that is no whole answer counts; the message names share, kind and limit."""
    evidence = make_evidence(changed("c01", 2, outcome=outcome))
    doubt = only(failed_requests.check(evidence))
    assert (doubt.cell, doubt.effect) == ("c01", "failed")
    assert "2 of 8 requests failed (25.0%)" in doubt.text
    assert outcome.value in doubt.text
    assert "limit is 1.0%" in doubt.text


def test_missing_rows_make_a_cell_partial() -> None:
    """One row short of the plan is enough, and a torn shard is named."""
    evidence = make_evidence(HEALTHY[:-1], torn=("w0.arrows",))
    doubts = missing_requests.check(evidence)
    assert doubts[0].effect == "partial"
    assert doubts[0].cell == HEALTHY[-1].cell
    assert "11 of 12 planned" in doubts[0].text
    assert "w0.arrows" in doubts[1].text


@pytest.mark.parametrize(("cell", "features"), [("c00", ("paged_kv",)), ("c01", ())])
def test_an_answer_from_the_wrong_path_voids_the_cell(cell: str, features: tuple[str, ...]) -> None:
    """Baseline answered accelerated, or the other way round: both are caught."""
    assert PLAN.cell(cell).accelerated == (not features)
    doubt = only(path_mismatch.check(make_evidence(changed(cell, 1, features=features))))
    assert (doubt.cell, doubt.effect) == (cell, "invalid-client")


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
