"""Reasoning steps as columns of a record, the same whether the server or the client runs them.

One entry for each step in order, the answer last. A server that runs the steps itself says how long
each was; where one ends and the next begins is then read off the client's own token stamps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from harness.load.client.told import whole
from harness.records.request import RequestRecord


class Step(NamedTuple):
    """One reasoning step, or the answer; stamps in nanoseconds on the run's clock."""

    start_ns: int
    sent_ns: int | None
    first_ns: int | None
    done_ns: int | None
    tokens: int | None
    kv_tokens: int | None


def with_steps(record: RequestRecord, steps: list[Step]) -> RequestRecord:
    """The record with these steps as its columns."""
    return replace(
        record,
        step_start_ns=tuple(step.start_ns for step in steps),
        step_sent_ns=tuple(step.sent_ns for step in steps),
        step_first_ns=tuple(step.first_ns for step in steps),
        step_done_ns=tuple(step.done_ns for step in steps),
        step_tokens=tuple(step.tokens for step in steps),
        step_kv_tokens=tuple(step.kv_tokens for step in steps),
    )


def server_steps(timings: Mapping[str, Any], record: RequestRecord) -> list[Step]:
    """Steps that the server's `timings` name; none where they do not fit the tokens that came.

    A step starts with the last token of the one before: the server goes on by itself.
    """
    told = _told(timings.get("steps"))
    n_answer = len(record.token_ns) - sum(n for n, _ in told)
    if not told or n_answer < 1:
        return []
    ends = [*told, (n_answer, whole(timings.get("kv_tokens")))]
    steps: list[Step] = []
    first, start_ns, sent_ns = 0, record.intended_ns, record.sent_ns
    for n_tokens, n_kv in ends:
        stamps = record.token_ns[first : first + n_tokens]
        steps.append(Step(start_ns, sent_ns, stamps[0], stamps[-1], n_tokens, n_kv))
        first, start_ns, sent_ns = first + n_tokens, stamps[-1], stamps[-1]
    return [*steps[:-1], steps[-1]._replace(done_ns=record.done_ns)]


def _told(value: Any) -> list[tuple[int, int | None]]:
    """Tokens and context length of each step; nothing unless every step has its tokens."""
    steps = value if isinstance(value, list) else []
    found = [
        (whole(step.get("tokens")), whole(step.get("kv_tokens")))
        for step in steps
        if isinstance(step, dict)
    ]
    counted = [(n, n_kv) for n, n_kv in found if n is not None and n > 0]
    return counted if len(counted) == len(steps) else []
