"""One answer, with what a record does not keep: its text, and whether log-probabilities came."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.load.client.exchange import Exchange
from harness.load.client.sse import EventTooLarge, SseDecoder
from harness.records.request import Outcome, RequestRecord

REFUSING_STATUS = frozenset({400, 404, 405, 415, 422, 501})


@dataclass(frozen=True, kw_only=True)
class Heard:
    """One answer.

    Attributes:
        record: as a run would keep it, with its text.
        has_logprobs: some choice carried log-probabilities.
        path: path that the server says ran (`x-mc-path`), None where it says nothing.
    """

    record: RequestRecord
    has_logprobs: bool = False
    path: str | None = None

    @property
    def text(self) -> str:
        """Reasoning and answer, as one text."""
        return (self.record.reasoning or "") + (self.record.text or "")

    @property
    def is_ok(self) -> bool:
        """Whether it came whole; an answer that is properly empty did."""
        return self.record.outcome.is_ok or self.record.outcome is Outcome.EMPTY_SUCCESS

    @property
    def is_refused(self) -> bool:
        """Whether the server understood the question and said no."""
        return self.record.http_status in REFUSING_STATUS

    @property
    def n_choices(self) -> int:
        """Choices that ended."""
        return len(self.record.finish_reason)


def hear(exchange: Exchange, record: RequestRecord) -> Heard:
    """What this exchange, decoded to this record, says."""
    events = list(_events(exchange))
    return Heard(
        record=record,
        has_logprobs=any(_has_logprobs(event) for event in events),
        path=exchange.headers.get("x-mc-path"),
    )


def _events(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The JSON objects of the stream."""
    if exchange.status != 200:
        return
    decoder = SseDecoder()
    try:
        for event in decoder.feed(exchange.body, 0):
            value = _object(event.data)
            if value is not None:
                yield value
    except EventTooLarge:
        return


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _has_logprobs(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and bool(choice.get("logprobs")) for choice in choices
    )
