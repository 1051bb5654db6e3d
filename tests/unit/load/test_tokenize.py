"""Counting prompt tokens on the target, in whatever form it offers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.base.errors import SetupError
from harness.load.client.plain_http import PlainHttp, Reply
from harness.load.client.tokenize import TargetTokenizer

Answer = Callable[[dict[str, Any]], Any]


class FakeTarget(PlainHttp):
    """Answers by functions, `/tokenize` first: a value is a 200, None a 404, a number itself."""

    def __init__(self, answer: Answer, **others: Answer) -> None:
        super().__init__("http://127.0.0.1:9")
        self.answer = answer
        self.others = {"/" + path.replace("__", "/"): other for path, other in others.items()}
        self.questions: list[dict[str, Any]] = []

    def post(self, path: str, value: Any) -> Reply:
        """Ask the function."""
        self.questions.append(value)
        answer = (self.answer if path == "/tokenize" else self.others.get(path, nothing))(value)
        if answer is None:
            return Reply(404, b"not found")
        if isinstance(answer, int):
            return Reply(answer, b"no")
        return Reply(200, json.dumps(answer).encode())


def nothing(_: dict[str, Any]) -> Any:
    return None


def words(text: str) -> int:
    return len(text.split())


def llama_cpp(body: dict[str, Any]) -> Any:
    """Knows `content` only; the start token is special, a template of 5 comes as text."""
    text = body.get("content", "")
    n = words(text) + (5 if body.get("parse_special") and text.startswith("<T>") else 0)
    n -= 1 if text.startswith("<T>") else 0
    return {"tokens": [7] * (n + bool(body.get("add_special") and text))}


def template(body: dict[str, Any]) -> Any:
    return {"prompt": f"<T> {body['messages'][0]['content']}"}


def usage(body: dict[str, Any]) -> Any:
    """An answer of one token whose usage knows a template of 9."""
    assert body["max_tokens"] == 1
    return {"choices": [], "usage": {"prompt_tokens": words(body["messages"][0]["content"]) + 9}}


def bundled(body: dict[str, Any]) -> Any:
    """Batches, messages, a start token that can be left out; a template of 5."""
    special = 1 if body.get("add_special_tokens", True) else 0
    if "prompts" in body:
        return {"counts": [words(text) + special for text in body["prompts"]]}
    if "messages" in body:
        return {"count": words(body["messages"][0]["content"]) + 5}
    return {"count": words(body["prompt"]) + special}


def without_batches(body: dict[str, Any]) -> Any:
    return 400 if "prompts" in body else bundled(body)


def without_bare(body: dict[str, Any]) -> Any:
    if "add_special_tokens" in body or "prompts" in body:
        return 422
    return bundled(body)


def with_uneven_template(body: dict[str, Any]) -> Any:
    if "messages" in body:
        text = body["messages"][0]["content"]
        return {"count": words(text) + 5 + (words(text) > 1)}
    return bundled(body)


@pytest.mark.parametrize("answer", [bundled, without_batches, without_bare])
@pytest.mark.parametrize("is_chat", [True, False])
def test_count_and_overhead_add_up_to_what_the_target_sees(
    answer: Answer,
    *,
    is_chat: bool,
) -> None:
    """Bare count plus overhead is the whole prompt's length, in every form of the route."""
    tokenizer = TargetTokenizer.detect(FakeTarget(answer), "m", is_chat=is_chat)
    assert tokenizer is not None
    counts = tokenizer.count_many(["a b", "a b c"])
    whole = [2 + 5, 3 + 5] if is_chat else [2 + 1, 3 + 1]
    assert [count + tokenizer.overhead for count in counts] == whole


@pytest.mark.parametrize("is_chat", [True, False])
def test_llama_cpp_counts_by_its_own_route(*, is_chat: bool) -> None:
    """`content` in, tokens out; the template comes from `/apply-template`, the start token too."""
    target = FakeTarget(llama_cpp, **{"apply-template": template})
    tokenizer = TargetTokenizer.detect(target, "m", is_chat=is_chat)
    assert tokenizer is not None
    assert tokenizer.overhead == (6 if is_chat else 1)
    assert tokenizer.count_many(["a b", "a b c"]) == [2, 3]


def test_a_route_that_knows_no_template_learns_it_from_usage() -> None:
    """llama-cpp-python counts texts only: one-token answers tell what the chat template adds."""

    def count(body: dict[str, Any]) -> Any:
        return {"count": words(body["input"]) + 1}

    target = FakeTarget(nothing, extras__tokenize__count=count, v1__chat__completions=usage)
    tokenizer = TargetTokenizer.detect(target, "m", is_chat=True)
    assert tokenizer is not None
    assert tokenizer.path == "/extras/tokenize/count"
    assert tokenizer.overhead == 8
    assert tokenizer.count_many(["a b"]) == [3]
    blind = FakeTarget(nothing, extras__tokenize__count=count)
    assert TargetTokenizer.detect(blind, "m", is_chat=True) is None


def test_a_template_that_is_not_additive_is_counted_whole() -> None:
    """Then every text is asked for as a message, and nothing is added."""
    tokenizer = TargetTokenizer.detect(FakeTarget(with_uneven_template), "m", is_chat=True)
    assert tokenizer is not None
    assert tokenizer.overhead == 0
    assert tokenizer.count_many(["a", "a b"]) == [1 + 5, 2 + 6]


@pytest.mark.parametrize(
    "answer", [lambda _: None, lambda _: 405, lambda _: {"tokens": [1, 2]}, lambda _: {"count": 3}]
)
def test_a_target_without_counts_has_no_tokenizer(answer: Answer) -> None:
    """No route, or a route that answers something else."""
    assert TargetTokenizer.detect(FakeTarget(answer), "m", is_chat=True) is None


def test_batches_stay_below_the_size_servers_accept() -> None:
    """2000 short texts and 20 long ones are split; the counts stay in order."""
    target = FakeTarget(bundled)
    tokenizer = TargetTokenizer.detect(target, "m", is_chat=True)
    assert tokenizer is not None
    texts = ["a " * (i % 7 + 1) for i in range(2000)] + ["b " * 50_000] * 20
    target.questions.clear()
    assert tokenizer.count_many(texts) == [words(text) for text in texts]
    assert all(len(q["prompts"]) <= 512 for q in target.questions)
    assert all(sum(map(len, q["prompts"])) < 500_000 for q in target.questions)


def test_a_target_that_stops_counting_is_a_setup_error() -> None:
    """Midway through the prompts the route fails: the message names it and the status."""
    target = FakeTarget(bundled)
    tokenizer = TargetTokenizer.detect(target, "m", is_chat=True)
    assert tokenizer is not None
    target.answer = lambda _: 500
    with pytest.raises(SetupError, match=r"/tokenize: got HTTP 500"):
        tokenizer.count_many(["a"])
