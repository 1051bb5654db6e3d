import json
from typing import Any

import pytest

from harness.server.accel import EXACT_FEATURES, read_features
from harness.server.api_error import ApiError
from harness.server.schemas import (
    ChatBody,
    CompletionBody,
    InferBody,
    TokenizeBody,
    parse_body,
)

CHAT = {"messages": [{"role": "user", "content": "hello"}]}


def refusal(values: Any, schema: Any = CompletionBody) -> ApiError:
    """The error a body is answered with."""
    with pytest.raises(ApiError) as caught:
        parse_body(json.dumps(values).encode(), schema)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_tokens", 0, "from 1 up"),
        ("max_tokens", "5", "from 1 up"),
        ("max_tokens", 2.5, "from 1 up"),
        ("temperature", -0.1, "0 to 2"),
        ("temperature", 2.1, "0 to 2"),
        ("temperature", True, "0 to 2"),
        ("top_p", 0, "above 0, at most 1"),
        ("top_p", 1.01, "above 0, at most 1"),
        ("top_k", -2, "0 or -1 for off"),
        ("min_p", 1.1, "0 to 1"),
        ("frequency_penalty", 2.01, "-2 to 2"),
        ("presence_penalty", -2.01, "-2 to 2"),
        ("repetition_penalty", 0, "above 0, at most 2"),
        ("repetition_penalty", 2.5, "above 0, at most 2"),
        ("seed", 2**63, "64 bits"),
        ("seed", "x", "64 bits"),
        ("stop", ["a"] * 5, "up to 4"),
        ("stop", "", "1 to 64"),
        ("stop", "x" * 65, "1 to 64"),
        ("n", 2, "1, the only value"),
        ("ignore_eos", "yes", "true or false"),
        ("cot_depth", 17, "0 to 16"),
        ("cot_depth", -1, "0 to 16"),
        ("cot_step_tokens", 0, "1 to 256"),
        ("cot_step_tokens", 257, "1 to 256"),
        ("stream", 1, "true or false"),
        ("stream_options", {"include_usage": 1}, "include_usage"),
        ("stream_options", {"foo": True}, "include_usage"),
        ("prompt", 5, "a string or a list of token ids"),
        ("prompt", [], "a string or a list of token ids"),
        ("prompt", [-1], "a string or a list of token ids"),
        ("prompt", ["a", "b"], "a string or a list of token ids"),
        ("logprobs", 1, "not supported by this build"),
        ("logit_bias", {"5": 1}, "not supported by this build"),
        ("best_of", 2, "not supported by this build"),
        ("temprature", 1.0, "unknown parameter"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_range(
    field: str, value: Any, allowed: str
) -> None:
    """Every unknown, unsupported or out-of-range field is refused in words, never ignored."""
    error = refusal({"prompt": "x", field: value})
    assert error.param == field
    assert str(error).startswith(field)
    assert allowed in str(error)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        [{"role": "robot", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": "x", "name": "y"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}],
    ],
)
def test_bad_messages_are_named(messages: Any) -> None:
    """Whatever is wrong inside a conversation is reported as `messages`."""
    assert refusal({"messages": messages}, ChatBody).param == "messages"


def test_every_problem_is_told_at_once() -> None:
    """Two bad fields make one answer that names both."""
    error = refusal({"prompt": "x", "temperature": 9, "top_p": 3})
    assert "temperature" in str(error)
    assert "top_p" in str(error)


def test_missing_prompt_is_named() -> None:
    """A body without its required field says so; a null counts as absent."""
    assert str(refusal({})) == "prompt: missing, allowed a string or a list of token ids"
    assert refusal({"prompt": None}).param == "prompt"


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff", b'{"prompt": NaN}', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    """Broken JSON, other types and absurd nesting end in a 400."""
    with pytest.raises(ApiError) as caught:
        parse_body(raw, CompletionBody)
    assert caught.value.status == 400


def test_prompts_are_not_echoed_at_length() -> None:
    """A refusal shows only the beginning of a long value."""
    error = refusal({"prompt": {"secret": "x" * 5000}})
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (CompletionBody, {"prompt": [1, 2, 3], "temperature": 1, "top_k": -1, "stop": "x"}),
        (CompletionBody, {"prompt": "", "n": 1, "best_of": 1, "echo": False, "seed": -5}),
        (ChatBody, CHAT | {"logprobs": False, "top_p": 1, "max_completion_tokens": 5}),
        (ChatBody, CHAT | {"stream_options": {"include_usage": True}, "user": None}),
        (ChatBody, CHAT | {"max_tokens": 5, "max_completion_tokens": 5}),
        (ChatBody, {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]}]}),
        (InferBody, {"prompt": "x", "max_tokens": 5, "cot_depth": 16}),
        (TokenizeBody, {"prompts": ["a", "b"]}),
    ],
)
def test_good_bodies_pass(schema: Any, values: dict[str, Any]) -> None:
    """Values at the borders, neutral values and nulls are taken."""
    assert parse_body(json.dumps(values).encode(), schema)


def test_two_output_limits_must_agree() -> None:
    """`max_tokens` and `max_completion_tokens` that differ are refused."""
    error = refusal(CHAT | {"max_tokens": 5, "max_completion_tokens": 6}, ChatBody)
    assert error.param == "max_completion_tokens"


@pytest.mark.parametrize(
    ("header", "features"),
    [
        (None, ()),
        ("", ()),
        ("false", ()),
        ("False", ()),
        ("true", EXACT_FEATURES),
        ("TRUE", EXACT_FEATURES),
        ("paged_kv", ("paged_kv",)),
        (" paged_kv , paged_kv", ("paged_kv",)),
        ("true,paged_kv", EXACT_FEATURES),
        ("paged_kv,prefix_cache", ("prefix_cache", "paged_kv")),
        ("async_store, adaptive_batching", ("adaptive_batching", "async_store")),
    ],
)
def test_accel_header(header: str | None, features: tuple[str, ...]) -> None:
    """Absent and false mean baseline, true means every exact feature, a list means itself."""
    assert read_features(header) == features


@pytest.mark.parametrize("header", ["yes", "paged", "paged_kv,warp_drive", "1", "false,true"])
def test_unknown_accel_word(header: str) -> None:
    """An unknown word is refused with the list of what this build has."""
    with pytest.raises(ApiError, match="allowed true, false, or a comma list of adaptive_"):
        read_features(header)


@pytest.mark.parametrize("header", ["prefix_cache", "prefix_cache,adaptive_batching"])
def test_a_prefix_cache_needs_blocks(header: str) -> None:
    """`prefix_cache` without `paged_kv` is refused with what to write instead."""
    with pytest.raises(ApiError, match=r"without 'paged_kv'.*prefix_cache,paged_kv") as caught:
        read_features(header)
    assert caught.value.param == "X-MC-Accel"
