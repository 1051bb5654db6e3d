import json
import subprocess
import sys
from typing import Any

import pytest

from harness.server.accel import EXACT_FEATURES, LOSSY_FEATURES, mode_of, read_features
from harness.server.api_error import ApiError
from harness.server.body import parse_body
from harness.server.schemas import ChatBody, CompletionBody, InferBody, TokenizeBody

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
        ("max_tokens", 0, "from 1 to"),
        ("max_tokens", "5", "from 1 to"),
        ("max_tokens", 2.5, "from 1 to"),
        ("temperature", -0.1, "0 to 2"),
        ("temperature", 2.1, "0 to 2"),
        ("temperature", True, "0 to 2"),
        ("top_p", 0, "above 0, at most 1"),
        ("top_p", 1.01, "above 0, at most 1"),
        ("top_k", -2, "0 or -1 for off"),
        ("min_p", 1.1, "0 to 1"),
        ("frequency_penalty", 2.01, "-2 to 2"),
        ("presence_penalty", -2.01, "-2 to 2"),
        ("repetition_penalty", 0, "a number from 0.01 to 2"),
        ("repetition_penalty", 2.5, "a number from 0.01 to 2"),
        ("penalty_decay", -0.1, "a number from 0 to 2"),
        ("penalty_decay", 2.1, "a number from 0 to 2"),
        ("penalty_window", -2, "an integer from -1 to 1048576"),
        ("penalty_window", 2.5, "an integer from -1 to 1048576"),
        ("seed", 2**63, "64 bits"),
        ("seed", "x", "64 bits"),
        ("stop", ["a"] * 5, "up to 4"),
        ("stop", "", "1 to 64"),
        ("stop", "x" * 65, "1 to 64"),
        ("n", 17, "1 to 16"),
        ("n", 0, "1 to 16"),
        ("ignore_eos", "yes", "true or false"),
        ("cot_depth", 17, "0 to 16"),
        ("cot_depth", -1, "0 to 16"),
        ("cot_step_tokens", 0, "1 to 256"),
        ("cot_step_tokens", 257, "1 to 256"),
        ("stream", 1, "true or false"),
        ("stream_options", 1, "include_usage"),
        ("stream_options", {"include_usage": True}, "only with stream = true"),
        ("prompt", 5, "a string, a list of token ids"),
        ("prompt", [], "a string, a list of token ids"),
        ("prompt", ["a"] * 17, "up to 16 of either"),
        ("logprobs", 21, "0 to 20"),
        ("logprobs", True, "0 to 20"),
        ("user", "me", "not supported by this build"),
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


USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "path", "words"),
    [
        ([], "messages", "got [], allowed 1 to 1024 of"),
        ("hello", "messages", 'got "hello", allowed 1 to 1024 of'),
        ([USER, 5], "messages[1]", "got 5, allowed 1 to 1024 of"),
        ([{"role": "robot", "content": "x"}], "messages[0].role", 'got "robot", allowed system,'),
        ([USER, {"role": "user"}], "messages[1].content", "missing, allowed a string or a list"),
        ([USER | {"content": 5}], "messages[0].content", "got 5, allowed a string or a list"),
        ([USER | {"content": {"a": 1}}], "messages[0].content", 'got {"a": 1}, allowed'),
        ([USER | {"name": "y"}], "messages[0].name", "unknown, allowed content, role"),
        (
            [USER | {"content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}],
            "messages[0].content[1].type",
            'got "image_url", allowed "text"',
        ),
        (
            [USER | {"content": [{"type": "text", "text": 7}]}],
            "messages[0].content[0].text",
            "got 7, allowed a string",
        ),
    ],
)
def test_what_is_wrong_inside_a_conversation_is_told_by_its_path(
    messages: Any, path: str, words: str
) -> None:
    """The refusal names the innermost value at fault, not the union it failed to match."""
    error = refusal({"messages": messages}, ChatBody)
    assert error.param == path
    assert str(error).startswith(f"{path}: {words}")


def test_lists_are_told_by_their_index() -> None:
    """An item out of range is named with its place; a list too long is named as the whole."""
    assert refusal({"prompt": [1, -1]}).param == "prompt[1]"
    assert refusal({"prompt": [1, "a"]}).param == "prompt[1]"
    assert refusal({"prompt": "x", "stop": ["a", ""]}).param == "stop[1]"
    assert refusal({"prompt": "x", "stop": list("abcde")}).param == "stop"


def test_a_refusal_is_bounded_and_plain_whatever_came() -> None:
    """Long and unprintable names, many problems and deep values make a short plain message."""
    name = "\u00e9\u0007" + "x" * 100_000
    error = refusal({"prompt": "x", name: 1} | {f"field{index}": 1 for index in range(500)})
    assert len(str(error)) < 6000
    assert str(error).isprintable()
    assert "and 493 more" in str(error)
    json.dumps(error.body).encode()
    deep: Any = 1
    for _ in range(700):
        deep = [deep]
    assert len(str(refusal({"prompt": deep}))) < 400


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_in_a_name_is_told(text: str) -> None:
    """JSON can hold half a character, UTF-8 cannot: as a name it is refused in plain ASCII."""
    assert "lone surrogate" in str(refusal({"prompt": "x", text: 1}))
    json.dumps(refusal({"prompt": "x", text: 1}).body).encode()


def test_a_cause_of_a_refusal_is_not_kept() -> None:
    """A logged trace of a refusal cannot show the body: nothing is chained to it."""
    error = refusal({"prompt": {"secret": "canary"}})
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_every_problem_is_told_at_once() -> None:
    """Two bad fields make one answer that names both."""
    error = refusal({"prompt": "x", "temperature": 9, "top_p": 3})
    assert "temperature" in str(error)
    assert "top_p" in str(error)


def test_missing_prompt_is_named() -> None:
    """A body without its required field says so; a null counts as absent."""
    assert str(refusal({})).startswith("prompt: missing, allowed a string, a list")
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
        (ChatBody, CHAT | {"stream": True, "stream_options": {"include_usage": None}}),
        (
            ChatBody,
            CHAT | {"user": None, "tools": [], "n": 16, "logprobs": True, "top_logprobs": 20},
        ),
        (ChatBody, {"messages": [{"role": "developer", "content": "a", "refusal": None}]}),
        (CompletionBody, {"prompt": ["a", "b"], "logprobs": 0, "stop": []}),
        (CompletionBody, {"prompt": [[1, 2], [3]], "n": 2}),
        (ChatBody, CHAT | {"max_tokens": 5, "max_completion_tokens": 5}),
        (ChatBody, {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]}]}),
        (InferBody, {"prompt": "x", "max_tokens": 5, "cot_depth": 16}),
        (TokenizeBody, {"prompts": ["a", "b"]}),
    ],
)
def test_good_bodies_pass(schema: Any, values: dict[str, Any]) -> None:
    """Values at the borders, neutral values and nulls are taken."""
    assert parse_body(json.dumps(values).encode(), schema)


def test_the_inside_of_stream_options_is_checked() -> None:
    """A wrong or unknown part is named by its path."""
    stream = {"prompt": "x", "stream": True}
    wrong = refusal(stream | {"stream_options": {"include_usage": 1}})
    assert str(wrong) == "stream_options.include_usage: got 1, allowed true or false"
    unknown = refusal(stream | {"stream_options": {"foo": True}})
    assert str(unknown) == (
        "stream_options.foo: unknown, allowed continuous_usage_stats, include_usage"
    )


def test_top_logprobs_need_logprobs() -> None:
    """A count of logprobs nobody asked for is refused."""
    assert refusal(CHAT | {"top_logprobs": 3}, ChatBody).param == "top_logprobs"


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


@pytest.mark.skipif(not LOSSY_FEATURES, reason="no native kernels")
def test_lossy_features_run_only_when_named() -> None:
    """`true` brings none; named alone they are alone, and prefixes may be shared among them."""
    assert not set(LOSSY_FEATURES) & set(read_features("true"))
    assert read_features("packed_state") == ("packed_state",)
    assert read_features("true,packed_state") == (*EXACT_FEATURES, "packed_state")
    assert read_features("packed_state,prefix_cache") == ("prefix_cache", "packed_state")
    assert mode_of(read_features("packed_state")).layout == "packed"
    assert mode_of(read_features("packed_state,paged_kv")).layout == "packed"


@pytest.mark.parametrize("header", ["yes", "paged", "paged_kv,warp_drive", "1", "false,true"])
def test_unknown_accel_word(header: str) -> None:
    """An unknown word is refused with the list of what this build has."""
    with pytest.raises(ApiError, match=r"comma list of true, adaptive_.*may change the answer"):
        read_features(header)


@pytest.mark.parametrize("header", ["prefix_cache", "prefix_cache,adaptive_batching"])
def test_a_prefix_cache_needs_blocks(header: str) -> None:
    """`prefix_cache` without `paged_kv` is refused with what to write instead."""
    with pytest.raises(ApiError, match=r"without 'paged_kv'.*prefix_cache,paged_kv") as caught:
        read_features(header)
    assert caught.value.param == "X-MC-Accel"


def test_without_native_kernels_nothing_is_fused() -> None:
    """A build without them says so: the word is unknown, and `true` is what there is."""
    script = """
import sys
sys.modules["kernels.cpu._portable"] = None
from harness.server.accel import read_features
from harness.server.api_error import ApiError
print(",".join(read_features("true")))
try:
    read_features("fused_sampling")
except ApiError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    features, refusal = done.stdout.splitlines()
    assert "fused_sampling" not in features
    assert "paged_kv" in features
    assert (
        "got 'fused_sampling', allowed false, true (every exact feature), or a comma list of"
        in refusal
    )
    assert f"list of true, {features.replace(',', ', ')}" in refusal
