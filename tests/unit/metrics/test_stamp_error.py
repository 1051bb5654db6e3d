from typing import Any

import pytest

from harness.metrics.stamp_error import match_log, stamp_errors
from harness.plan.build import build_plan
from tests.make_records import make_record, make_scenario

PLAN = build_plan(make_scenario())
SEGMENT = PLAN.segments[0]
CELL = PLAN.cell(SEGMENT.cell)
MS = 1_000_000


def entry(index: int, arrival_ns: int, token_ns: list[int]) -> dict[str, Any]:
    seed = SEGMENT.requests[index].sampling_seed
    n_prompt = CELL.prompt_tokens
    return {"seed": seed, "n_prompt": n_prompt, "arrival_ns": arrival_ns, "token_ns": token_ns}


def record(index: int, sent_ns: int, first_ns: int | None, read_ns: int | None) -> Any:
    return make_record(
        cell=CELL.id, segment=SEGMENT.id, index=index, sent_ns=sent_ns, first_token_ns=first_ns,
        first_token_read_ns=read_ns, late_read=(index == 1, False),
    )  # fmt: skip


def test_errors_are_stamp_and_read_minus_the_real_send() -> None:
    """By seed, whatever the order of the log; a late read is marked, no first token is left out."""
    records = [
        record(0, 0, 12 * MS, 15 * MS),
        record(1, MS, 13 * MS, 14 * MS),
        record(2, 2 * MS, None, None),
    ]
    log = [entry(2, 4, []), entry(1, 3, [13 * MS]), entry(0, 2, [10 * MS, 20 * MS])]
    errors = stamp_errors(match_log(PLAN, records, log))
    assert errors.stamped_s.tolist() == [0.002, 0.0]
    assert errors.read_s.tolist() == [0.005, 0.001]
    assert errors.is_late.tolist() == [False, True]


def test_the_same_request_twice_is_matched_in_order_of_time() -> None:
    """Two rows of one planned request, as after a resume: first to first."""
    records = [record(0, 50 * MS, 61 * MS, 61 * MS), record(0, 0, 12 * MS, 12 * MS)]
    log = [entry(0, 51 * MS, [60 * MS]), entry(0, 1 * MS, [10 * MS])]
    errors = stamp_errors(match_log(PLAN, records, log))
    assert errors.stamped_s.tolist() == [0.002, 0.001]


def test_a_log_without_the_request_is_refused() -> None:
    """Another server's log, or one that forgot: said, not guessed."""
    with pytest.raises(ValueError, match=r"request 0 of .* is not in the log"):
        match_log(PLAN, [record(0, 0, 1, 1)], [])
