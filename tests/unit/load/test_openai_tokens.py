"""Which event is the first token, how many tokens there are, and when each of them came."""

import io
import json
from typing import Any

import pytest

from harness.load.client.adapter import Ask
from harness.load.client.exchange import Exchange
from harness.load.client.openai import OpenAiChat, OpenAiCompletions
from harness.load.client.token_stamps import tokens_per_chunk
from harness.records.columns import to_batch
from harness.records.export import write_json_lines
from harness.records.request import Outcome, RequestRecord
from harness.scenario.acceleration import Asked
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


def decode(*bodies: bytes, **more: Any) -> RequestRecord:
    return OpenAiChat().decode(exchange(*bodies, **more), ASK, keep_text=True)


def ms(stamp: int | None) -> float | None:
    return None if stamp is None else stamp / MS


FIRST: dict[str, tuple[list[bytes], float | None, float | None]] = {
    # name: bodies (10 ms apart), first token at, first output at
    "role event is no token": ([ROLE, text("a"), STOP, DONE], 20, 20),
    "role and text together": ([delta(role="assistant", content="a"), STOP, DONE], 10, 10),
    "repeated role-only events": ([ROLE, ROLE, ROLE, text("a"), STOP], 40, 40),
    "null content": ([delta(role="assistant", content=None), text("a"), STOP], 20, 20),
    "reasoning_content first": (
        [delta(reasoning_content=""), delta(reasoning_content="r"), text("a"), STOP], 20, 30,
    ),
    "reasoning first": ([delta(reasoning="r", content=""), text("a"), STOP], 10, 20),
    "thinking first": ([delta(thinking="r"), text("a"), STOP], 10, 20),
    "only reasoning, cut by length": ([delta(reasoning_content="r"), LENGTH, DONE], 10, None),
    "tool text is output": (
        [ROLE, delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}]), STOP], 20, 20,
    ),
    "legacy function call": ([delta(function_call={"arguments": "{"}), STOP], 10, 10),
    "usage event is no token": ([usage(0), text("a"), STOP], 20, 20),
    "no choices, no delta": (
        [event({"choices": []}), event({"choices": [{"index": 0}]}), text("a"), STOP], 30, 30,
    ),
    "comment before the token": ([b": ping\n\n", text("a"), STOP], 20, 20),
    "keep-alive as data": ([b"data: : keepalive\n\n", text("a"), STOP], 20, 20),
    "event split over pieces": ([text("a")[:9], text("a")[9:], STOP], 20, 20),
    "blank line in the next piece": ([text("a")[:-1], b"\n", STOP], 20, 20),
    "content as a list of parts": ([delta(content=[{"type": "text", "text": "a"}]), STOP], 10, 10),
}  # fmt: skip


@pytest.mark.parametrize(("bodies", "token", "output"), FIRST.values(), ids=FIRST.keys())
def test_first_token_and_first_output(
    bodies: list[bytes], token: float | None, output: float | None
) -> None:
    """TTFT is the first non-empty text of any kind, TTFO the first that is no reasoning."""
    record = decode(*bodies)
    assert (ms(record.first_token_ns), ms(record.first_output_ns)) == (token, output)


def test_the_first_event_is_apart_from_the_first_token() -> None:
    """A role event on acceptance sets first_event, never TTFT."""
    record = decode(ROLE, text("a"), STOP, DONE)
    assert (ms(record.first_event_ns), ms(record.first_token_ns)) == (10, 20)


COUNTS: dict[str, tuple[list[bytes], int | None, list[float], str | None]] = {
    # name: bodies, tokens, stamps in ms, source
    "no usage: one per chunk": ([ROLE, text("a"), text("b"), STOP, DONE], 2, [20, 30], "chunks"),
    "usage: null everywhere": ([delta(usage=None, content="a"), STOP, DONE], 1, [10], "chunks"),
    "usage equals chunks": ([text("a"), text("b"), STOP, usage(2), DONE], 2, [10, 20], "usage"),
    "whole answer in one chunk": ([text("abc"), usage(4), STOP, DONE], 4, [10] * 4, "usage"),
    "two tokens per chunk": (
        [text("ab"), text("cd"), STOP, usage(4), DONE], 4, [10, 10, 20, 20], "usage",
    ),
    "one more token than chunks": (
        [text("a"), text("b"), STOP, usage(3)], 3, [10, 10, 20], "usage",
    ),
    "fewer tokens than chunks": (
        [text("a"), text("b"), text("c"), STOP, usage(2)], 2, [10, 20], "usage",
    ),
    "continuous usage": (
        [
            delta(usage={"prompt_tokens": 3, "completion_tokens": 1}, content="a"),
            delta(usage={"prompt_tokens": 3, "completion_tokens": 4}, content="bcd"),
            delta("stop", usage={"prompt_tokens": 3, "completion_tokens": 4}), DONE,
        ],
        4, [10, 20, 20, 20], "usage",
    ),
    "cumulative usage is replaced, not added": (
        [
            delta(usage={"completion_tokens": 10}, content="a"),
            delta(usage={"completion_tokens": 50}, content="b"),
            delta("stop", usage={"completion_tokens": 100}, content="c"),
        ],
        100, [*[10.0] * 10, *[20.0] * 40, *[30.0] * 50], "usage",
    ),
    "usage beside choices": (
        [text("a"), delta("stop", usage={"completion_tokens": 1}), DONE], 1, [10], "usage",
    ),
    "other names": (
        [text("a"), STOP, event({"usage": {"input_tokens": 11, "output_tokens": 1}})], 1, [10],
        "usage",
    ),
    "zeros beside text are no count": (
        [delta(usage={"prompt_tokens": 0, "completion_tokens": 0}, content="a"), STOP, DONE],
        1, [10], "chunks",
    ),
    "usage after the finish": ([text("a"), STOP, usage(1)], 1, [10], "usage"),
    "no text": ([ROLE, STOP, DONE], None, [], None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("bodies", "n", "stamps", "source"), COUNTS.values(), ids=COUNTS.keys()
)  # fmt: skip
def test_token_counts_and_stamps(
    bodies: list[bytes], n: int | None, stamps: list[float], source: str | None
) -> None:
    """One stamp per token, their number is the count, and the count names its source."""
    record = decode(*bodies)
    assert (record.n_output_tokens, record.count_source) == (n, source)
    assert [stamp / MS for stamp in record.token_ns] == stamps


def test_prompt_tokens_come_from_usage_under_both_names() -> None:
    """`prompt_tokens` and `input_tokens` are the same thing."""
    assert decode(text("a"), STOP, usage(1, n_prompt=42)).n_prompt_tokens == 42
    other = event({"usage": {"input_tokens": 11, "output_tokens": 1}})
    assert decode(text("a"), STOP, other).n_prompt_tokens == 11


def test_reasoning_tokens_come_from_usage_or_from_their_chunks() -> None:
    """The details' number wins; without it the reasoning chunks are counted."""
    chunks = [delta(reasoning="r"), delta(reasoning="r"), text("a"), STOP]
    assert decode(*chunks, usage(3)).n_reasoning_tokens == 2
    named = usage(9, completion_tokens_details={"reasoning_tokens": 8})
    assert decode(*chunks, named).n_reasoning_tokens == 8


def test_texts_are_kept_by_channel_only_when_asked() -> None:
    """A probe sees content, reasoning and tool text apart; a run's record holds none."""
    bodies = (
        delta(reasoning="r"), text("a"), text("b"),
        delta(tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]), STOP, DONE,
    )  # fmt: skip
    record = decode(*bodies)
    assert (record.text, record.reasoning, record.tool_text) == ("ab", "r", "f{}")
    silent = OpenAiChat().decode(exchange(*bodies), ASK)
    assert (silent.text, silent.reasoning, silent.tool_text) == (None, None, None)


def test_text_is_exact_whatever_the_bytes() -> None:
    """A line separator inside a JSON string and a character cut by the network survive."""
    body = text("x\u2028y中🌍 ")
    pieces = [body[i : i + 1] for i in range(len(body))]
    assert decode(*pieces, STOP, DONE).text == "x\u2028y中🌍 "


def test_chunks_read_together_are_late_and_trailing_events_do_not_make_one_late() -> None:
    """Two text chunks in one read are both late; one with usage and end mark behind it is not."""
    assert decode(text("a"), text("b"), STOP, DONE, together=True).late_read == (True, True)
    assert decode(text("a"), STOP, usage(1), DONE, together=True).late_read == (False,)
    assert decode(text("a"), text("b"), STOP, DONE).late_read == (False, False)


def test_three_events_in_one_segment_are_three_tokens() -> None:
    """Equal stamps are legal, and flagged."""
    record = decode(text("a") + text("b") + text("c"), STOP, DONE)
    assert [stamp / MS for stamp in record.token_ns] == [10, 10, 10]
    assert record.late_read == (True, True, True)


def test_the_bundled_servers_own_account_is_read() -> None:
    """`timings` in the last event gives phases, server times, evictions and features."""
    timings = {
        "phases": {"queue": 0.5, "attention": 1, "bad": "x"}, "ttft_phases": {"queue": 0.5},
        "wall_s": 2.0, "ttft_s": 1.5, "n_evictions": 2, "features": ["paged_kv"],
        "path": "accelerated",
    }  # fmt: skip
    last = event({"choices": [], "usage": {"completion_tokens": 1}, "timings": timings})
    record = decode(text("a"), STOP, last, DONE)
    assert record.phases == {"queue": 0.5, "attention": 1.0}
    assert record.ttft_phases == {"queue": 0.5}
    assert (record.server_ttft_s, record.server_e2e_s, record.n_evictions) == (1.5, 2.0, 2)
    assert record.features == ("paged_kv",)


def test_what_no_record_can_hold_costs_its_value_and_not_the_run() -> None:
    """Counts and times without end, half characters: the row can be stored and exported."""
    half, endless = "\ud800", 10**400
    timings = {
        "phases": {half: 1.0, "queue": endless, "ffn": float("inf"), "kv": float("nan")},
        "wall_s": endless, "ttft_s": float("-inf"), "n_evictions": 2**70, "features": [half, 1],
        "steps": [{"tokens": endless, "kv_tokens": 1}], "kv_tokens": endless,
    }  # fmt: skip
    counts = {"completion_tokens": 10**12, "prompt_tokens": 2**70}
    data = json.dumps({"choices": [], "usage": counts, "timings": timings}).encode()
    record = decode(text("a"), text("b"), LENGTH, b"data: " + data + b"\n\n", DONE)
    assert (record.outcome, record.n_output_tokens) == (Outcome.OK_LENGTH, 2)
    assert (record.count_source, record.n_prompt_tokens) == ("chunks", None)
    assert (record.server_e2e_s, record.server_ttft_s, record.n_evictions) == (None, None, None)
    assert (record.phases, record.features) == ({"\ufffd": 1.0}, ("\ufffd", "1"))
    other = decode(text("a"), delta("half").replace(b"half", b"\\ud800"), DONE)
    assert other.finish_reason == ("\ufffd",)
    out = io.StringIO()
    assert write_json_lines([to_batch([record, other])], out) == 2


@pytest.mark.parametrize(
    ("asked", "path", "anomaly"),
    [
        (True, "accelerated", None),
        (False, "baseline", None),
        (None, "baseline", None),
        (True, "baseline", "path_mismatch"),
        (False, "accelerated", "path_mismatch"),
        (True, None, "path_unconfirmed"),
        (False, None, None),
        ("paged_kv", "accelerated", None),
        ("paged_kv", "baseline", "path_mismatch"),
        ("paged_kv", None, "path_unconfirmed"),
    ],
)
def test_the_path_that_ran_is_checked(
    asked: Asked | None, path: str | None, anomaly: str | None
) -> None:
    """An answer that ran another path than the one asked for is marked."""
    ask = Ask(model="m", prompt="p", max_tokens=9, accelerated=asked)
    last = event({"choices": [], "timings": {"path": path}} if path else {"choices": []})
    record = OpenAiChat().decode(exchange(text("a"), STOP, last, DONE), ask)
    assert [name for name in record.anomalies if name.startswith("path")] == (
        [anomaly] if anomaly else []
    )


@pytest.mark.parametrize(
    ("asked", "ran", "is_marked"),
    [
        ("a,b", ["b", "a"], False),
        ("a,b", ["a"], True),
        ("a", ["a", "b"], True),
        (True, ["a"], False),
        (True, [], True),
    ],
)
def test_the_features_that_ran_are_checked(
    asked: Asked, ran: list[str], *, is_marked: bool
) -> None:
    """A list is sent as it is; an answer that ran fewer features, or more, is marked."""
    ask = Ask(model="m", prompt="p", max_tokens=9, accelerated=asked)
    assert ("X-MC-Accel", "true" if asked is True else asked) in OpenAiChat().request(ask).headers
    last = event({"choices": [], "timings": {"path": "accelerated", "features": ran}})
    record = OpenAiChat().decode(exchange(text("a"), STOP, last, DONE), ask)
    assert ("path_mismatch" in record.anomalies) is is_marked


@pytest.mark.parametrize(
    ("cumulative", "total", "counts"),
    [
        ([], 5, []),
        ([None] * 3, None, [1, 1, 1]),
        ([None] * 3, 7, [3, 2, 2]),
        ([None] * 4, 4, [1, 1, 1, 1]),
        ([None] * 3, 2, [1, 1, 0]),
        ([1, 3, 6], 6, [1, 2, 3]),
        ([1, 3, 6], 8, [1, 2, 5]),
        ([1, 3, 6], 5, [2, 2, 1]),
        ([2, None, 6], 6, [2, 2, 2]),
        ([3, 2, 6], 6, [2, 2, 2]),
        ([0, 0, 0], 6, [2, 2, 2]),
    ],
)
def test_tokens_are_dealt_to_chunks(
    cumulative: list[int | None], total: int | None, counts: list[int]
) -> None:
    """Continuous usage decides where it is whole; else an even spread whose sum is the total."""
    assert tokens_per_chunk(cumulative, total) == counts


FULL = Ask(
    model="tiny",
    prompt='a "quoted" prompt\n',
    max_tokens=8,
    sampling={"temperature": 0.0, "frequency_penalty": 0.5},
    seed=7,
    ignore_eos=True,
    cot_depth=2,
    cot_step_tokens=16,
    accelerated=False,
    api_key="secret",
)


def test_a_chat_request_says_everything() -> None:
    """Every sampling value, the limits, usage and the reasoning depth are sent explicitly."""
    request = OpenAiChat().request(FULL)
    assert request.path == "/v1/chat/completions"
    assert json.loads(request.body) == {
        "model": "tiny",
        "messages": [{"role": "user", "content": 'a "quoted" prompt\n'}],
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "frequency_penalty": 0.5,
        "seed": 7,
        "ignore_eos": True,
        "cot_depth": 2,
        "cot_step_tokens": 16,
    }
    assert dict(request.headers)["X-MC-Accel"] == "false"
    assert dict(request.headers)["Authorization"] == "Bearer secret"


def test_a_plain_request_says_nothing_a_foreign_server_would_refuse() -> None:
    """No reasoning fields at depth 0, no acceleration header off its axis, no seed unasked."""
    request = OpenAiCompletions().request(Ask(model="m", prompt="p", max_tokens=1))
    assert request.path == "/v1/completions"
    assert set(json.loads(request.body)) == {
        "model", "prompt", "max_tokens", "stream", "stream_options",
    }  # fmt: skip
    assert not {"X-MC-Accel", "Authorization"} & set(dict(request.headers))


def test_the_key_is_not_shown() -> None:
    """An ask printed in a log or a traceback does not hold the key."""
    assert "secret" not in repr(FULL)


def test_a_truncated_exchange_still_yields_its_stamps() -> None:
    """Bytes received before a break are decoded."""
    given: Exchange = exchange(ROLE, text("a"), failure=Outcome.RESET, error="x")
    record = OpenAiChat().decode(given, ASK)
    assert (record.outcome, ms(record.first_token_ns)) == (Outcome.RESET, 20)
