"""What the front decides without a socket: room, keys, choices, names of tokens, descriptions."""

import importlib.metadata
import json
from itertools import islice
from typing import Any

import pytest
from starlette.types import Scope

from harness.server.answer import TokenLogprob
from harness.server.api_error import ApiError
from harness.server.gate import has_key
from harness.server.generation import build_choices, derived_seed, request_seeds
from harness.server.logprobs import chat_logprobs, completion_logprobs
from harness.server.openapi import build_openapi
from harness.server.room import Room
from harness.server.schemas import ChatBody, CompletionBody
from tests.unit.server import build


@pytest.mark.parametrize(
    ("n_wanted", "n_inside", "status"),
    [(1, 0, None), (6, 0, None), (1, 5, None), (2, 5, 429), (1, 6, 429), (7, 0, 400)],
)
def test_room_is_for_slots_and_places_in_the_line(
    n_wanted: int, n_inside: int, status: int | None
) -> None:
    """Two slots and four places take six sequences; what never fits is the client's fault."""
    room = Room(n_slots=2, n_waiting=4)
    if status is None:
        room.require(n_wanted, n_inside)
        return
    with pytest.raises(ApiError) as refused:
        room.require(n_wanted, n_inside)
    assert refused.value.status == status
    assert ("Retry-After" in refused.value.headers) == (status == 429)


@pytest.mark.parametrize(
    ("services_s", "n_inside", "expected"),
    [
        ([], 10, 1),  # nothing known yet
        ([2.0, 4.0], 6, 6),  # four wait, 3 s each, two slots
        ([0.01], 6, 1),
        ([100.0], 6, 60),
        ([3.0], 2, 2),  # nobody waits: one sequence must leave
        ([100.0] * 40 + [1.0] * 32, 6, 2),  # the old ones are forgotten
    ],
)
def test_retry_after_is_the_time_the_line_needs(
    services_s: list[float], n_inside: int, expected: int
) -> None:
    """Waiting sequences x mean time in a slot / slots, rounded up, from 1 to 60 s."""
    room = Room(n_slots=2, n_waiting=8)
    for seconds in services_s:
        room.note_service(seconds)
    assert room.retry_after_s(n_inside) == expected


@pytest.mark.parametrize(
    ("headers", "is_right"),
    [
        ([(b"authorization", b"Bearer secret")], True),
        ([(b"authorization", b"bearer secret ")], True),
        ([(b"authorization", b"secret")], False),
        ([(b"authorization", b"Basic secret")], False),
        ([(b"authorization", b"Bearer secre")], False),
        ([(b"authorization", b"Bearer secret1")], False),
        ([(b"authorization", b"Bearer \xff\xfe")], False),
        ([(b"authorization", b"Bearer secret"), (b"authorization", b"Bearer x")], False),
        ([], False),
    ],
)
def test_only_the_one_right_key_opens(
    headers: list[tuple[bytes, bytes]], *, is_right: bool
) -> None:
    """Scheme and key must both be right, and there must be one header."""
    scope: Scope = {"type": "http", "headers": headers}
    assert has_key(scope, b"secret") == is_right


def choices_of(body: Any, seed: int, prompts: list[list[int]]) -> Any:
    return build_choices(
        body, prompts, lambda text: [len(text)], default_tokens=16, max_model_len=100, seed=seed
    )


def test_choices_are_laid_out_prompt_by_prompt() -> None:
    """Two prompts with `n` = 2 are four choices; the default length fits each prompt's own room."""
    body = CompletionBody(prompt=[[1], [2]], n=2)
    choices = choices_of(body, 7, [[1], [2] * 95])
    assert [choice.prompt_index for choice in choices] == [0, 0, 1, 1]
    assert [len(choice.tokens) for choice in choices] == [1, 1, 95, 95]
    assert [choice.n_output_limit for choice in choices] == [16, 16, 5, 5]


@pytest.mark.parametrize("seed", [0, 7, -5, 2**63 - 1, -(2**63)])
def test_seeds_of_choices_differ_and_follow_from_the_one(seed: int) -> None:
    """The first choice has the request's seed; the others independent 63-bit ones, every time."""
    body = ChatBody.model_validate({"messages": [{"role": "user", "content": "x"}], "n": 8})
    seeds = [choice.params.seed for choice in choices_of(body, seed, [[1]])]
    assert seeds[0] == seed
    assert len(set(seeds)) == 8
    assert all(-(2**63) <= each < 2**63 for each in seeds)
    assert seeds == [derived_seed(seed, place) for place in range(8)]


def test_seeds_of_requests_follow_from_the_servers() -> None:
    """With a root the line of seeds is the same every time; without one it never is."""

    def line(root: int | None) -> list[int]:
        return list(islice(request_seeds(root), 5))

    assert line(3) == line(3) != line(4)
    assert len(set(line(3))) == 5
    assert line(None) != line(None)


def test_tokens_are_told_by_text_bytes_or_name() -> None:
    """Whole text as it is, part of a character by its bytes, a marker by its name."""
    tokenizer = build.tokenizer()
    river = tokenizer.encode(" river")[0]
    assert tokenizer.token_name(river) == tokenizer.decode([river])
    part = tokenizer.encode("\u2603")[0]
    assert tokenizer.token_name(part).startswith("bytes:\\xe2")
    assert tokenizer.token_name(tokenizer.eos_id) == "<|eos|>"


def test_logprobs_have_openais_two_shapes() -> None:
    """Chat tells each token with bytes and the likeliest; completions tell parallel lists."""
    tokenizer = build.tokenizer()
    ids = tokenizer.encode("the river")
    entries = [TokenLogprob(ids[0], -0.5, [(ids[1], -0.25)], 0), TokenLogprob(ids[1], -1.0, [], 3)]
    chat = chat_logprobs(entries, tokenizer)
    assert chat is not None
    first = chat["content"][0]
    name = tokenizer.token_name(ids[1])
    assert first["logprob"] == -0.5
    assert bytes(first["bytes"]).decode() == first["token"] == tokenizer.token_name(ids[0])
    told = [(each["token"], each["logprob"]) for each in first["top_logprobs"]]
    assert told == [(name, -0.25)]
    completion = completion_logprobs(entries, tokenizer)
    assert completion is not None
    assert completion["top_logprobs"] == [{name: -0.25, first["token"]: -0.5}, {name: -1.0}]
    assert completion["text_offset"] == [0, 3]
    assert chat_logprobs([], tokenizer) is completion_logprobs([], tokenizer) is None


def test_the_description_has_every_field_and_this_servers_limits() -> None:
    """Each field of a body is described, may be null if it may be absent, and has real limits."""
    description = build_openapi(2048, 4096)
    assert description["info"]["version"] == importlib.metadata.version("tailbreak")
    schemas = description["components"]["schemas"]
    chat = schemas["ChatBody"]
    assert set(ChatBody.model_fields) < set(chat["properties"])
    assert chat["additionalProperties"] is False
    assert chat["properties"]["n"]["anyOf"][1] == {"type": "null"}
    assert "null" not in json.dumps(chat["properties"]["messages"])
    assert '"maximum": 2048' in json.dumps(chat["properties"]["max_tokens"])
    assert '"exclusiveMaximum": 4096' in json.dumps(schemas["DetokenizeBody"])
    assert description["paths"]["/v1/infer"]["post"]["responses"]["429"]
    (text_only,) = description["paths"]["/metrics"]["get"]["parameters"]
    assert (text_only["name"], text_only["schema"]) == ("format", {"enum": ["text"]})
