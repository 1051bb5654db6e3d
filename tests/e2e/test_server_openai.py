"""The bundled server as OpenAI's own client sees it: every answer and error as its own type."""

import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from tests.e2e.plain_client import Client, ask, eventually

pytestmark = pytest.mark.e2e

KEY = "a-key-for-tests"
GREEDY: dict[str, Any] = {"model": "tiny", "temperature": 0, "extra_body": {"ignore_eos": True}}
PROMPT = "The old house by the river was"
MESSAGES: list[Any] = [
    {"role": "developer", "content": "Answer as a storyteller."},
    {"role": "user", "content": [{"type": "text", "text": "Tell me of the sea."}]},
    {"role": "assistant", "content": "The sea is", "refusal": None},
    {"role": "user", "content": "Go on.", "name": None},
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server that wants a key and has one slot and one place in the line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER_TEST_KEY", KEY)
        options = ServerOptions(
            port=0, max_num_seqs=2, max_queued_requests=1, api_key_env="SERVER_TEST_KEY"
        )
        with start_server(options) as running:
            yield running


@pytest.fixture(scope="module")
def remote(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_models_are_listed(remote: openai.OpenAI) -> None:
    """The list has the one model, which other calls accept."""
    assert [model.id for model in remote.models.list()] == ["tiny"]


def test_chat_whole_and_streamed_are_the_same(remote: openai.OpenAI) -> None:
    """Text, finish reason, usage and fingerprint agree; every kind of message is read."""
    whole = remote.chat.completions.create(messages=MESSAGES, max_tokens=8, **GREEDY)
    with remote.chat.completions.create(
        messages=MESSAGES,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
        **GREEDY,
    ) as stream:
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    assert whole.usage.prompt_tokens_details is not None
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    prints = {chunk.system_fingerprint for chunk in chunks} | {whole.system_fingerprint}
    assert len(prints) == 1
    assert prints.pop().startswith("fp_")


def test_choices_interleave_and_add_up(remote: openai.OpenAI) -> None:
    """`n` = 2: the first choice is the one alone, the second differs, streams have both."""
    fields = {**GREEDY, "temperature": 1.0, "seed": 11, "max_tokens": 40}
    alone = remote.completions.create(prompt=PROMPT, **fields)
    whole = remote.completions.create(prompt=PROMPT, n=2, **fields)
    texts = [choice.text for choice in whole.choices]
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert texts[0] == alone.choices[0].text != texts[1]
    assert whole.usage is not None
    assert alone.usage is not None
    assert whole.usage.prompt_tokens == alone.usage.prompt_tokens
    assert whole.usage.completion_tokens == 80
    with remote.completions.create(prompt=PROMPT, n=2, stream=True, **fields) as stream:
        choices = [chunk.choices[0] for chunk in stream]
    for index, text in enumerate(texts):
        mine = [choice for choice in choices if choice.index == index]
        assert "".join(choice.text for choice in mine) == text
        assert [choice.finish_reason for choice in mine if choice.finish_reason] == ["length"]
    order = [choice.index for choice in choices if choice.text]
    assert order != sorted(order)


def test_a_chat_stream_gives_each_choice_its_role(remote: openai.OpenAI) -> None:
    """`n` = 2 in a chat stream: one role chunk and one finish per index."""
    with remote.chat.completions.create(
        messages=MESSAGES, n=2, max_tokens=4, stream=True, **GREEDY
    ) as stream:
        choices = [chunk.choices[0] for chunk in stream]
    for index in (0, 1):
        mine = [choice for choice in choices if choice.index == index]
        assert [choice.delta.role for choice in mine if choice.delta.role] == ["assistant"]
        assert [choice.finish_reason for choice in mine if choice.finish_reason] == ["length"]


def test_several_prompts_are_choices_in_their_order(remote: openai.OpenAI) -> None:
    """Two prompts give the two answers they get alone; prompt tokens are counted over both."""
    prompts = [PROMPT, "A ship came in"]
    alone = [remote.completions.create(prompt=each, max_tokens=6, **GREEDY) for each in prompts]
    both = remote.completions.create(prompt=prompts, max_tokens=6, **GREEDY)
    assert [choice.text for choice in both.choices] == [each.choices[0].text for each in alone]
    assert both.usage is not None
    assert both.usage.prompt_tokens == sum(
        each.usage.prompt_tokens for each in alone if each.usage is not None
    )


def test_stop_ends_before_the_text(remote: openai.OpenAI) -> None:
    """A stop string is not part of the answer, whole or streamed, and the reason says `stop`."""
    text = remote.completions.create(prompt=PROMPT, max_tokens=40, **GREEDY).choices[0].text
    stop = text[12:15]
    whole = remote.completions.create(prompt=PROMPT, max_tokens=40, stop=[stop], **GREEDY)
    with remote.completions.create(
        prompt=PROMPT, max_tokens=40, stop=stop, stream=True, **GREEDY
    ) as stream:
        choices = [chunk.choices[0] for chunk in stream]
    assert whole.choices[0].text == text[: text.index(stop)]
    assert "".join(choice.text for choice in choices) == whole.choices[0].text
    assert choices[-1].finish_reason == whole.choices[0].finish_reason == "stop"


def test_chat_logprobs(remote: openai.OpenAI) -> None:
    """One entry per output token; bytes make the text; greedy takes the likeliest."""
    fields = {**GREEDY, "messages": MESSAGES, "max_tokens": 9, "logprobs": True, "top_logprobs": 3}
    whole = remote.chat.completions.create(**fields)
    told = whole.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert len(told.content) == 9
    raw = b"".join(bytes(entry.bytes or []) for entry in told.content)
    assert raw.decode("utf-8", "replace") == whole.choices[0].message.content
    for entry in told.content:
        likeliest = entry.top_logprobs
        assert len(likeliest) == 3
        assert [each.logprob for each in likeliest] == sorted(
            (each.logprob for each in likeliest), reverse=True
        )
        assert entry.logprob == likeliest[0].logprob <= 0
        assert entry.token == likeliest[0].token
    with remote.chat.completions.create(stream=True, **fields) as stream:
        streamed = [
            entry
            for chunk in stream
            if chunk.choices[0].logprobs
            for entry in chunk.choices[0].logprobs.content or []
        ]
    assert [entry.token for entry in streamed] == [entry.token for entry in told.content]
    assert [entry.logprob for entry in streamed] == pytest.approx(
        [entry.logprob for entry in told.content], abs=1e-4
    )


def test_completion_logprobs(remote: openai.OpenAI) -> None:
    """Tokens join to the text at their offsets; the chosen one is among the likeliest."""
    reply = remote.completions.create(
        prompt=PROMPT, max_tokens=9, logprobs=2, **{**GREEDY, "temperature": 1.0, "seed": 4}
    )
    told = reply.choices[0].logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert told.top_logprobs is not None
    assert told.text_offset is not None
    text = reply.choices[0].text
    assert len(told.tokens) == 9
    for token, offset in zip(told.tokens, told.text_offset, strict=True):
        assert token.startswith(("bytes:", "<|")) or text[offset:].startswith(token)
    for token, logprob, likeliest in zip(
        told.tokens, told.token_logprobs, told.top_logprobs, strict=True
    ):
        assert likeliest[token] == logprob
        assert len(likeliest) in {2, 3}
        assert sum(map(math.exp, likeliest.values())) <= 1 + 1e-6
    none = remote.completions.create(prompt=PROMPT, max_tokens=2, **GREEDY)
    assert none.choices[0].logprobs is None


def test_a_stop_string_cuts_the_logprobs_with_the_count(remote: openai.OpenAI) -> None:
    """Entries equal the tokens that usage counts, also where text was held back or cut off."""
    text = remote.completions.create(prompt=PROMPT, max_tokens=40, **GREEDY).choices[0].text
    for stream in (False, True):
        fields = {**GREEDY, "prompt": PROMPT, "max_tokens": 40, "stop": text[12:15], "logprobs": 0}
        if stream:
            with remote.completions.create(
                stream=True, stream_options={"include_usage": True}, **fields
            ) as chunks:
                seen = list(chunks)
            usage = seen[-1].usage
            told = [chunk.choices[0].logprobs for chunk in seen if chunk.choices]
            n_told = sum(len(each.tokens or []) for each in told if each is not None)
        else:
            whole = remote.completions.create(**fields)
            usage, logprobs = whole.usage, whole.choices[0].logprobs
            assert logprobs is not None
            n_told = len(logprobs.tokens or [])
        assert usage is not None
        assert n_told == usage.completion_tokens


def test_errors_are_the_clients_own_types(server: RunningServer, remote: openai.OpenAI) -> None:
    """Each refusal arrives as the exception its status stands for, with its parameter and code."""
    with pytest.raises(openai.BadRequestError, match="temperature: got 5") as bad:
        remote.chat.completions.create(model="tiny", messages=MESSAGES, temperature=5)
    assert (bad.value.param, bad.value.code) == ("temperature", "invalid_value")
    wrong: list[Any] = [{"role": "user", "content": 5}]
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\]\.content: got 5"):
        remote.chat.completions.create(model="tiny", messages=wrong)
    with pytest.raises(openai.NotFoundError) as missing:
        remote.completions.create(model="gpt-4", prompt="x")
    assert missing.value.code == "model_not_found"
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        stranger.models.list()
    assert refused.value.code == "invalid_api_key"
    long = "x" * (1 << 20)
    with pytest.raises(openai.APIStatusError) as large:
        remote.completions.create(model="tiny", prompt=long)
    assert large.value.status_code == 413
    with pytest.raises(openai.BadRequestError, match="characters, allowed at most"):
        remote.completions.create(model="tiny", prompt=long[: 1 << 19])
    with pytest.raises(openai.BadRequestError, match="n x prompts"):
        remote.completions.create(model="tiny", prompt="x", n=4)


def test_a_full_server_raises_a_rate_limit(server: RunningServer, remote: openai.OpenAI) -> None:
    """Three sequences fill slots and line: the fourth is a RateLimitError with Retry-After."""
    client = Client(server.url)
    with remote.completions.create(
        prompt=PROMPT, n=2, max_tokens=1000, stream=True, **GREEDY
    ) as stream:
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as full:
            remote.completions.create(prompt=PROMPT, n=2, max_tokens=2, **GREEDY)
        assert full.value.code == "queue_full"
        assert 1 <= int(full.value.response.headers["retry-after"]) <= 60
        eventually(lambda: client.value("mc_accel_running_sequences") == 2, 20)
    # The client closed the stream: both its sequences end, and the next request is taken.
    eventually(lambda: client.value("mc_accel_running_sequences") == 0, 20)
    key = {"Authorization": f"Bearer {KEY}"}
    assert client.post("/v1/completions", ask(max_tokens=2), **key).status == 200


@pytest.mark.parametrize("accel", ["false", "true"])
def test_phases_partition_the_wall_time_of_several_choices(
    server: RunningServer, accel: str
) -> None:
    """With `n` = 3 on two slots the account is the slowest choice's and adds up within 2 %."""
    body = ask(n=3, max_tokens=16, temperature=1.0, seed=1)
    key = {"Authorization": f"Bearer {KEY}"}
    for is_stream in (False, True):
        reply = Client(server.url).post(
            "/v1/completions", body | {"stream": is_stream}, accel=accel, **key
        )
        timings = (reply.events[-1] if is_stream else reply.json)["timings"]
        assert sum(timings["phases"].values()) == pytest.approx(timings["wall_s"], rel=0.02)
        assert sum(timings["ttft_phases"].values()) == pytest.approx(timings["ttft_s"], rel=0.02)
        assert timings["phases"]["queue"] > 0  # the third choice waited for a slot
        assert timings["ttft_phases"]["queue"] < timings["phases"]["queue"]


def test_running_counts_of_several_choices_rise_to_the_total(server: RunningServer) -> None:
    """`continuous_usage_stats` with `n` = 2 counts the whole request in every chunk."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = ask(n=2, max_tokens=10, stream=True, stream_options=options)
    key = {"Authorization": f"Bearer {KEY}"}
    events = Client(server.url).post("/v1/completions", body, **key).events
    counts = [
        event["usage"]["completion_tokens"]
        for event in events
        if event["choices"] and event["choices"][0]["text"]
    ]
    assert counts == sorted(counts)
    assert counts[-1] == events[-1]["usage"]["completion_tokens"] == 20
