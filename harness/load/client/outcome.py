"""How a request ended: the one place that turns transport and stream facts into an outcome.

Order: what broke the transport, what the status said, what the stream said, how it ended. A stream
that carried its end mark is whole even if the connection then broke.
"""

import json
from typing import Any, Final, NamedTuple

from harness.load.client.answer import Answer, StreamError, stream_error
from harness.load.client.exchange import Exchange, bounded
from harness.records.request import Outcome

REJECTING_STATUS: Final = frozenset({429, 503})
COMPLETIONS: Final = frozenset(
    {
        "stop", "length", "tool_calls", "content_filter",
        "function_call", "eos_token", "stop_sequence", "end_turn", "max_tokens",
    }
)  # fmt: skip
LENGTH: Final = frozenset({"length", "max_tokens"})
FAILURES: Final = frozenset({"abort", "error", "cancelled", "timeout", "parse_error"})
MENDABLE: Final = frozenset({Outcome.RESET, Outcome.CANCELLED})


class Verdict(NamedTuple):
    """An outcome, and what went wrong."""

    outcome: Outcome
    error: str | None = None


def judge(exchange: Exchange, answer: Answer) -> Verdict:
    """The outcome of this exchange, whose events were folded into `answer`."""
    if exchange.status is not None and exchange.status != 200:
        return _by_status(exchange)
    broken = exchange.failure
    if broken is not None and not _is_whole_anyway(broken, answer):
        return Verdict(broken, exchange.error)
    if answer.error is not None:
        return _by_stream_error(answer.error)
    if answer.bad_event is not None:
        return Verdict(Outcome.PROTOCOL_ERROR, bounded(f"event is no JSON: {answer.bad_event}"))
    if answer.first_piece is None:
        return _without_events(exchange)
    return _by_ending(answer)


def _is_whole_anyway(failure: Outcome, answer: Answer) -> bool:
    """A broken end after a proper one: the end mark came, or only the end mark is missing."""
    if failure is Outcome.IDLE_TIMEOUT:
        return answer.is_done or bool(answer.finish)
    if failure is Outcome.TRUNCATED:
        return True  # judged by how the stream itself ended
    return failure in MENDABLE and answer.is_done


def _by_status(exchange: Exchange) -> Verdict:
    status = exchange.status
    outcome = Outcome.REJECTED if status in REJECTING_STATUS else Outcome.HTTP_ERROR
    text = f"HTTP {status}: {_message(exchange.body)}"
    retry_after = exchange.headers.get("retry-after")
    if retry_after is not None:
        text = f"{text} (Retry-After: {retry_after})"
    return Verdict(outcome, bounded(text))


def _message(body: bytes) -> str:
    """The server's own words: an error object's message, else the start of the body."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body[:400].decode("utf-8", "replace")
    if isinstance(value, dict):
        for name in ("error", "message", "detail"):
            if value.get(name):
                return stream_error(value[name]).message
    return body[:400].decode("utf-8", "replace")


def _by_stream_error(error: StreamError) -> Verdict:
    code = "" if error.code is None else f"{error.code}: "
    is_rejection = error.code in REJECTING_STATUS
    outcome = Outcome.REJECTED if is_rejection else Outcome.IN_STREAM_ERROR
    return Verdict(outcome, bounded(f"in stream: {code}{error.message}"))


def _without_events(exchange: Exchange) -> Verdict:
    """A 200 without a single event: an error object, some other body, or nothing."""
    body = exchange.body
    if not body.strip():
        outcome = Outcome.TRUNCATED if exchange.failure else Outcome.EMPTY_SUCCESS
        return Verdict(outcome, "HTTP 200 with an empty body")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and value.get("error"):
        return _by_stream_error(stream_error(value["error"]))
    kind = exchange.headers.get("content-type", "no content type")
    start = body[:200].decode("utf-8", "replace")
    return Verdict(
        Outcome.PROTOCOL_ERROR, bounded(f"HTTP 200 without events ({kind}); starts with {start}")
    )


def _by_ending(answer: Answer) -> Verdict:
    reasons = set(answer.finish.values())
    failed = reasons & FAILURES
    if failed:
        return Verdict(Outcome.IN_STREAM_ERROR, f"finish_reason {', '.join(sorted(failed))}")
    if not reasons and not answer.is_done:
        return Verdict(
            Outcome.TRUNCATED, "the stream ended without finish_reason and without [DONE]"
        )
    if not answer.chunks:
        return Verdict(Outcome.EMPTY_SUCCESS, "no text in the whole answer")
    if not answer.is_done:
        return Verdict(Outcome.OK_NO_DONE)
    if not reasons:
        return Verdict(Outcome.OK_NO_FINISH)
    return Verdict(Outcome.OK_LENGTH if reasons & LENGTH else Outcome.OK)
