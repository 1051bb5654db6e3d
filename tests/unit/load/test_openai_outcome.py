"""Every ending of a stream that was seen in the field has its one outcome."""

import zlib
from dataclasses import replace
from typing import Any

import pytest

from harness.load.client.adapter import Ask
from harness.load.client.exchange import Exchange
from harness.load.client.openai import OpenAiChat, OpenAiCompletions
from harness.records.request import Outcome, RequestRecord
from tests.unit.load.streams import (
    DONE,
    LENGTH,
    MS,
    ROLE,
    STOP,
    delta,
    event,
    exchange,
    text,
    usage,
)

ASK = Ask(model="m", prompt="p", max_tokens=100)
JSON = {"content-type": "application/json"}
HI = text("hi")


def decode(given: Exchange) -> RequestRecord:
    return OpenAiChat().decode(given, ASK)


def failed(failure: Outcome, *bodies: bytes) -> Exchange:
    return exchange(*bodies, failure=failure, error="as the transport said")


ERROR_500 = event({"error": {"message": "boom", "type": "x", "param": None, "code": 500}})
SERVER_BUSY = event({"error": {"message": "busy", "code": 503}})

ENDINGS: dict[str, tuple[Exchange, Outcome]] = {
    "whole": (exchange(ROLE, HI, STOP, usage(1), DONE), Outcome.OK),
    "cut by length": (exchange(ROLE, HI, LENGTH, usage(1), DONE), Outcome.OK_LENGTH),
    "text and finish in one event": (exchange(text("hi", "stop"), DONE), Outcome.OK),
    "finish, no end mark, closed": (exchange(HI, STOP), Outcome.OK_NO_DONE),
    "length, no end mark, closed": (exchange(HI, LENGTH), Outcome.OK_NO_DONE),
    "end mark, finish always null": (exchange(HI, DONE), Outcome.OK_NO_FINISH),
    "neither finish nor end mark": (exchange(ROLE, HI), Outcome.TRUNCATED),
    "one chunk, then nothing": (exchange(ROLE), Outcome.TRUNCATED),
    "end mark without a space": (exchange(HI, STOP, b"data:[DONE]\n\n"), Outcome.OK),
    "end mark not terminated": (exchange(HI, STOP, b"data: [DONE]"), Outcome.OK),
    "legacy finish eos_token": (exchange(HI, delta("eos_token"), DONE), Outcome.OK),
    "tool calls": (
        exchange(
            delta(tool_calls=[{"index": 1, "id": "", "function": {"name": "f"}}]),
            delta(tool_calls=[{"index": 1, "function": {"name": None, "arguments": "{}"}}]),
            delta("tool_calls"), DONE,
        ),
        Outcome.OK,
    ),
    "unknown finish reason": (exchange(HI, delta("unload"), DONE), Outcome.OK),
    "finish abort": (exchange(HI, delta("abort"), DONE), Outcome.IN_STREAM_ERROR),
    "finish error": (exchange(HI, delta("error"), DONE), Outcome.IN_STREAM_ERROR),
    "finish parse_error": (exchange(HI, delta("parse_error"), DONE), Outcome.IN_STREAM_ERROR),
    "error object, then end mark": (exchange(ERROR_500, DONE), Outcome.IN_STREAM_ERROR),
    "error after five tokens": (exchange(*[HI] * 5, ERROR_500, DONE), Outcome.IN_STREAM_ERROR),
    "error as a string": (exchange(event({"error": "EXPLODED"})), Outcome.IN_STREAM_ERROR),
    "error code as a string": (
        exchange(event({"error": {"message": "x", "code": "500"}})), Outcome.IN_STREAM_ERROR,
    ),
    "error under http_status_code": (
        exchange(event({"error": {"message": "x", "http_status_code": 422}}), DONE),
        Outcome.IN_STREAM_ERROR,
    ),
    "error under status 503": (
        exchange(event({"error": {"message": "x", "status": 503}}), DONE), Outcome.REJECTED,
    ),
    "in-stream 503 before a token": (exchange(SERVER_BUSY, DONE), Outcome.REJECTED),
    "in-stream 429": (
        exchange(event({"error": {"message": "slow down", "code": 429}})), Outcome.REJECTED,
    ),
    "429 inside a 200 that is no stream": (
        exchange(b'{"error":{"message":"abort","code":429}}', headers=JSON), Outcome.REJECTED,
    ),
    "error 500 inside a 200 that is no stream": (
        exchange(b'{"error":{"message":"abort"}}', headers=JSON), Outcome.IN_STREAM_ERROR,
    ),
    "a whole JSON answer instead of a stream": (
        exchange(b'\n\n\n{"choices":[{"message":{"content":"hi"}}]}', headers=JSON),
        Outcome.PROTOCOL_ERROR,
    ),
    "html": (
        exchange(b"<html>login</html>", headers={"content-type": "text/html"}),
        Outcome.PROTOCOL_ERROR,
    ),
    "events under another content type": (
        exchange(HI, STOP, DONE, headers={"content-type": "text/plain"}), Outcome.OK,
    ),
    "nothing at all": (exchange(), Outcome.EMPTY_SUCCESS),
    "no text, finish length": (exchange(ROLE, LENGTH, usage(0), DONE), Outcome.EMPTY_SUCCESS),
    "only an end mark": (exchange(DONE), Outcome.EMPTY_SUCCESS),
    "an event that is no JSON": (
        exchange(HI, b"data: {oops\n\n", STOP, DONE), Outcome.PROTOCOL_ERROR,
    ),
    "an event of invalid UTF-8": (
        exchange(HI, b'data: {"a":"\xff"}\n\n', STOP, DONE), Outcome.PROTOCOL_ERROR,
    ),
    "gzip against our wish": (
        exchange(
            zlib.compress(HI + STOP + DONE, wbits=31),
            headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
        ),
        Outcome.OK,
    ),
    "damaged gzip": (
        exchange(b"\x1f\x8b\x00nonsense", headers={"content-encoding": "gzip"}),
        Outcome.PROTOCOL_ERROR,
    ),
    "an event past the cap": (
        exchange(b"data: " + b"x" * 17_000_000 + b"\n\n"), Outcome.EVENT_TOO_LARGE,
    ),
    "http 429": (
        exchange(b'{"error":{"message":"slow"}}', status=429, headers=JSON), Outcome.REJECTED,
    ),
    "http 503": (exchange(b"busy", status=503, headers={}), Outcome.REJECTED),
    "http 400": (exchange(b'{"detail":"bad"}', status=400, headers=JSON), Outcome.HTTP_ERROR),
    "http 500": (exchange(b"", status=500, headers={}), Outcome.HTTP_ERROR),
    "a redirect": (exchange(b"", status=307, headers={}), Outcome.HTTP_ERROR),
    "reset inside the stream": (failed(Outcome.RESET, ROLE, HI), Outcome.RESET),
    "reset after the end mark": (failed(Outcome.RESET, HI, STOP, DONE), Outcome.OK),
    "closed inside the stream": (failed(Outcome.TRUNCATED, ROLE, HI), Outcome.TRUNCATED),
    "closed after the finish": (failed(Outcome.TRUNCATED, HI, STOP), Outcome.OK_NO_DONE),
    "closed after the end mark": (failed(Outcome.TRUNCATED, HI, STOP, DONE), Outcome.OK),
    "closed before any event": (failed(Outcome.TRUNCATED), Outcome.TRUNCATED),
    "silent before the finish": (failed(Outcome.IDLE_TIMEOUT, HI), Outcome.IDLE_TIMEOUT),
    "silent after the finish": (failed(Outcome.IDLE_TIMEOUT, HI, STOP), Outcome.OK_NO_DONE),
    "too slow": (failed(Outcome.TOTAL_TIMEOUT, HI), Outcome.TOTAL_TIMEOUT),
    "cancelled": (failed(Outcome.CANCELLED, HI), Outcome.CANCELLED),
    "data that is a keep-alive": (
        exchange(b"data: : keepalive\n\n", HI, STOP, DONE), Outcome.OK,
    ),
    "empty objects and azure's first event": (
        exchange(
            event({}), event({"id": "", "created": 0, "choices": [], "prompt_filter_results": []}),
            HI, event({"choices": [{"index": 0, "content_filter_offsets": {}}]}), STOP, DONE,
        ),
        Outcome.OK,
    ),
    "all nulls written out": (
        exchange(
            event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi",
                   "reasoning_content": None, "tool_calls": None}, "finish_reason": None}],
                   "usage": None}),
            event({"choices": [{"index": 0, "delta": None, "finish_reason": "stop",
                   "matched_stop": 2}], "usage": None}),
            DONE,
        ),
        Outcome.OK,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "outcome"), ENDINGS.values(), ids=ENDINGS.keys())
def test_every_ending_has_its_outcome(given: Exchange, outcome: Outcome) -> None:
    """The outcome follows the table; what is not ok says why, in at most 500 characters."""
    record = decode(given)
    assert record.outcome is outcome
    assert (record.error is None) == outcome.is_ok
    assert len(record.error or "") <= 500


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (exchange(b'{"error":{"message":"too long"}}', status=400, headers=JSON), "too long"),
        (exchange(b"x", status=429, headers={"retry-after": "abc"}), "Retry-After: abc"),
        (exchange(ERROR_500), "500: boom"),
        (exchange(event({"error": "EXPLODED"})), "EXPLODED"),
        (exchange(b"<html>" + b"y" * 9000, headers=JSON), "<html>yyy"),
        (exchange(HI, b"data: {oops\n\n"), "{oops"),
        (exchange(HI, delta("abort")), "abort"),
    ],
)
def test_the_error_carries_the_servers_own_words(given: Exchange, words: str) -> None:
    """Message, code, hint or the start of the body are kept."""
    assert words in (decode(given).error or "")


def test_a_failure_keeps_the_tokens_that_came() -> None:
    """Five tokens before an in-stream error are stamped, and the request still counts as failed."""
    record = decode(exchange(*[HI] * 5, ERROR_500, DONE))
    assert record.token_ns == tuple((i + 1) * 10 * MS for i in range(5))
    assert record.n_output_tokens == 5


ODDITIES: dict[str, tuple[Exchange, str]] = {
    "comment": (exchange(b": ping\n\n" + HI, STOP, DONE), "comment"),
    "empty event": (exchange(b"event: ping\ndata:\n\n" + HI, STOP, DONE), "empty_event"),
    "open last event": (exchange(HI, STOP, b"data: [DONE]"), "unterminated_event"),
    "content type": (exchange(HI, STOP, DONE, headers=JSON), "content_type"),
    "unknown finish": (exchange(HI, delta("unload"), DONE), "unknown_finish_reason"),
    "falling usage": (exchange(HI, usage(5), usage(3), STOP, DONE), "usage_fell"),
    "over the limit": (exchange(HI, STOP, usage(101), DONE), "over_max_tokens"),
    "stop at the limit": (exchange(HI, STOP, usage(100), DONE), "suspected_length"),
    "more tokens than chunks": (exchange(HI, STOP, usage(3), DONE), "tokens_without_chunk"),
    "no object": (exchange(HI, b"data: 3\n\n", STOP, DONE), "non_object_event"),
    "hidden reasoning": (
        exchange(
            HI, STOP, usage(9, completion_tokens_details={"reasoning_tokens": 8}), DONE
        ),
        "hidden_reasoning",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "name"), ODDITIES.values(), ids=ODDITIES.keys())
def test_oddities_are_counted_by_name(given: Exchange, name: str) -> None:
    """What is odd and harmless leaves the outcome alone and is counted."""
    record = decode(given)
    assert record.anomalies[name] >= 1
    assert record.outcome.is_ok


def test_a_clean_stream_has_no_anomaly() -> None:
    """Nothing is counted where nothing is odd."""
    assert decode(exchange(ROLE, HI, STOP, usage(1), DONE)).anomalies == {}


@pytest.mark.parametrize(
    ("body", "finished"),
    [
        ([ROLE, HI], False),
        ([HI, STOP], True),
        ([HI, DONE], True),
        ([], False),
        ([HI[:20]], False),
    ],
)
def test_a_silent_stream_knows_whether_it_has_ended(body: list[bytes], *, finished: bool) -> None:
    """A finish reason or the end mark ends an answer whose connection stays open."""
    assert OpenAiChat().is_finished(body) is finished


def test_completions_have_the_same_endings() -> None:
    """The other dialect carries its text in `text`, the endings are the same."""
    chunk: dict[str, Any] = {"choices": [{"index": 0, "text": "hi", "finish_reason": None}]}
    last: dict[str, Any] = {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
    given = exchange(event(chunk), event(last), usage(1), DONE)
    record = OpenAiCompletions().decode(given, ASK, keep_text=True)
    assert (record.outcome, record.text, record.n_output_tokens) == (Outcome.OK_LENGTH, "hi", 1)


def test_a_key_that_the_server_repeats_is_not_recorded() -> None:
    """Gateways answer with the key they refuse: the record's error has a word in its place."""
    body = b'{"error": {"message": "no such key: sk-12345678"}}'
    given = replace(exchange(body), status=401)
    record = OpenAiChat().decode(given, replace(ASK, api_key="sk-12345678"))
    assert record.error == "HTTP 401: no such key: [key]"
