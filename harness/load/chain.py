"""A chain of calls that counts as one request: how it goes on, and the one record it leaves.

Each call's prompt is the context of the call before, its answer, and the same separators that the
bundled server's own loop puts in. Pure: sending and decoding are the virtual user's.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.load.client.exchange import bounded
from harness.load.client.steps import Step, with_steps
from harness.records.request import RequestRecord, Stamps

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call that is over.

    Attributes:
        intended_ns: when it was meant to be sent: the end of the call before plus the think time.
        record: what became of it.
        n_bytes: bytes of its body.
    """

    intended_ns: int
    record: RequestRecord
    n_bytes: int


def turns_after(calls: Sequence[Call], n_calls: int) -> tuple[str, ...]:
    """What follows the prompt when these calls are over: each answer and what asks for more."""
    return tuple(
        text
        for number, call in enumerate(calls, start=1)
        for text in (_said(call.record), _separator(number, n_calls))
    )


def _separator(number: int, n_calls: int) -> str:
    """What stands between call `number` and the next."""
    return "\nAnswer: " if number == n_calls - 1 else f"\nStep {number + 1}: "


def _said(record: RequestRecord) -> str:
    """The answer's text, its reasoning where it has no other, always fit to be sent."""
    text = record.text or record.reasoning or ""
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text


def fold(calls: Sequence[Call], n_calls: int) -> RequestRecord:
    """The one record of a chain: it starts as the first call did and ends as the last one did.

    TTFT is the first call's, TTFO the last call's of a whole chain; tokens, phases and anomalies
    are those of all calls together. A chain that ended early says at which call.
    """
    records = [call.record for call in calls]
    first, last = records[0], records[-1]
    record = replace(
        last,
        error=last.error if last.outcome.is_ok else _where(last, len(calls), n_calls),
        sent_ns=first.sent_ns,
        headers_ns=first.headers_ns,
        first_byte_ns=first.first_byte_ns,
        first_event_ns=first.first_event_ns,
        first_token_ns=first.first_token_ns,
        first_token_read_ns=first.first_token_read_ns,
        first_output_ns=last.first_output_ns if len(calls) == n_calls else None,
        token_ns=tuple(stamp for each in records for stamp in each.token_ns),
        chunk_ns=tuple(stamp for each in records for stamp in each.chunk_ns),
        late_read=tuple(is_late for each in records for is_late in each.late_read),
        rx_lag_ns=max((each.rx_lag_ns for each in records if each.rx_lag_ns is not None),
                      default=None),
        n_prompt_tokens=first.n_prompt_tokens,
        n_output_tokens=_total(each.n_output_tokens for each in records),
        n_reasoning_tokens=_n_reasoning(records, n_calls),
        count_source=_count_source(records),
        text=None,
        reasoning=None,
        tool_text=None,
        phases=_added(records),
        ttft_phases=first.ttft_phases,
        server_ttft_s=first.server_ttft_s,
        server_e2e_s=_total(each.server_e2e_s for each in records),
        n_evictions=_total(each.n_evictions for each in records),
        features=tuple(dict.fromkeys(name for each in records for name in each.features)),
        anomalies=_oddities(records),
        stamps=first.stamps if len({each.stamps for each in records}) == 1 else Stamps.USER,
    )  # fmt: skip
    return with_steps(record, [_step(call) for call in calls])


def _oddities(records: Sequence[RequestRecord]) -> dict[str, int]:
    """Anomalies of all calls; that the calls of a chain ran different features is one more."""
    counts = sum((Counter(each.anomalies) for each in records), Counter[str]())
    if len({frozenset(each.features) for each in records if each.outcome.is_ok}) > 1:
        counts["path_mismatch"] += 1
    return dict(counts)


def _where(last: RequestRecord, number: int, n_calls: int) -> str:
    return bounded(f"call {number} of {n_calls}: {last.error or last.outcome.value}")


def _step(call: Call) -> Step:
    record = call.record
    return Step(
        start_ns=call.intended_ns,
        sent_ns=record.sent_ns,
        first_ns=record.first_token_ns,
        done_ns=record.done_ns,
        tokens=record.n_output_tokens,
        kv_tokens=_total((record.n_prompt_tokens, record.n_output_tokens)),
    )


def _total(values: Iterable[Number | None]) -> Number | None:
    """The sum, or None where one of them is not known."""
    given = list(values)
    known = [value for value in given if value is not None]
    return sum(known) if len(known) == len(given) else None


def _n_reasoning(records: Sequence[RequestRecord], n_calls: int) -> int | None:
    """Tokens of all steps; of the answer those that it calls reasoning itself."""
    is_whole = len(records) == n_calls
    steps = records[:-1] if is_whole else records
    return _total(
        [
            *(each.n_output_tokens for each in steps),
            *([records[-1].n_reasoning_tokens] if is_whole else []),
        ]
    )


def _count_source(records: Sequence[RequestRecord]) -> str | None:
    """The weakest source among the calls that counted."""
    sources = {each.count_source for each in records} - {None}
    return "chunks" if "chunks" in sources else next(iter(sources), None)


def _added(records: Sequence[RequestRecord]) -> dict[str, float]:
    """Seconds by phase over all calls; empty where one of them gives no account."""
    if not all(each.phases for each in records):
        return {}
    names = dict.fromkeys(name for each in records for name in each.phases)
    return {name: sum(each.phases.get(name, 0.0) for each in records) for name in names}
