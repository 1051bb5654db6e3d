"""The OpenAI shapes that the truth server reads and writes: bytes to Ask, tokens to bytes.

A token is a word of a text between white space; a chat adds four tokens as its template.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

TEMPLATE_TOKENS: Final = 4
MAX_TOKENS: Final = 100_000
NUMBERS: Final = {
    "cot_depth": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Request fields that a law may name as factors, with what stands for their absence."""
STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK: Final = b"0\r\n\r\n"
REASONS: Final = {200: b"OK", 400: b"Bad Request", 404: b"Not Found", 405: b"Method Not Allowed"}


class BadRequest(Exception):  # noqa: N818  named after the status it becomes
    """What the client sent cannot be answered."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request for tokens.

    Attributes:
        n_prompt: prompt tokens, the chat template included.
        n_reasoning: reasoning tokens before the answer (cot_depth * cot_step_tokens).
        n_output: tokens of the answer.
        factors: the request's part of what a law may depend on.
        body: the body, its texts as digests.
    """

    is_chat: bool
    is_stream: bool
    n_prompt: int
    n_reasoning: int
    n_output: int
    seed: int
    factors: dict[str, float]
    body: dict[str, Any]

    @property
    def n_tokens(self) -> int:
        """All tokens that are sent."""
        return self.n_reasoning + self.n_output


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object in a request's body.

    Raises:
        BadRequest: it is none.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is no JSON") from error
    if not isinstance(value, dict):
        raise BadRequest("the body is no JSON object")
    return value


def parse_ask(body: dict[str, Any], *, is_chat: bool) -> Ask:
    """What a body of `/v1/chat/completions`, or of one of the two other routes, asks for.

    Raises:
        BadRequest: a field is missing or no number in its range.
    """
    n_prompt = count_chat(body) if is_chat else count_text(body.get("prompt"))
    factors = {name: _number(body, name, default) for name, default in NUMBERS.items()}
    depth = _whole(body, "cot_depth", 0)
    n_reasoning = depth * _whole(body, "cot_step_tokens", 16) if depth else 0
    name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    n_output = _whole(body, name, 16)
    if not 1 <= n_output + n_reasoning <= MAX_TOKENS:
        raise BadRequest(f"{name} with reasoning: got {n_output + n_reasoning}, allowed 1-100000")
    return Ask(
        is_chat=is_chat,
        is_stream=body.get("stream") is True,
        n_prompt=n_prompt,
        n_reasoning=n_reasoning,
        n_output=n_output,
        seed=_whole(body, "seed", 0, most=2**63),
        factors={**factors, "prompt_tokens": float(n_prompt)},
        body={key: without_texts(key, value) for key, value in body.items()},
    )


def without_texts(name: str, value: Any) -> Any:
    """A field of a body, its texts as digests."""
    if name == "messages":
        return [{**item, "content": digest(item["content"])} for item in value]
    return digest(value) if name == "prompt" else value


def digest(value: Any) -> str:
    """What the log keeps of a text or a secret: enough to tell two apart."""
    return f"sha256:{hashlib.sha256(json.dumps(value).encode()).hexdigest()}"


def count_text(text: Any) -> int:
    """Tokens of a text.

    Raises:
        BadRequest: it is no text.
    """
    if not isinstance(text, str):
        raise BadRequest("prompt: allowed is a string")
    return len(text.split())


def count_chat(body: dict[str, Any]) -> int:
    """Tokens of a body's messages, template included.

    Raises:
        BadRequest: there are no messages with text.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: allowed is a list of at least one message")
    contents = [item.get("content") if isinstance(item, dict) else None for item in messages]
    return sum(count_text(content) for content in contents) + TEMPLATE_TOKENS


def tokenize(body: dict[str, Any]) -> dict[str, Any]:
    """The answer of `/tokenize`: for one prompt, a list of prompts, or messages."""
    prompts = body.get("prompts")
    if isinstance(prompts, list):
        return {"counts": [count_text(text) for text in prompts]}
    return {"count": count_chat(body) if "messages" in body else count_text(body.get("prompt"))}


def token_chunk(ask: Ask, i: int) -> bytes:
    """Token `i` of a stream as one HTTP chunk."""
    return _chunk(_event({"choices": [_choice(ask, f"w{i} ", is_thought=i < ask.n_reasoning)]}))


def stream_end(ask: Ask) -> bytes:
    """What follows the last token: finish reason, usage, end mark."""
    finish = {**_choice(ask, "", is_thought=False), "finish_reason": "length"}
    events = _event({"choices": [finish]}) + _event({"choices": [], "usage": _usage(ask)})
    return _chunk(events + b"data: [DONE]\n\n") + LAST_CHUNK


def whole_answer(ask: Ask) -> bytes:
    """The answer that is not streamed, as a whole response."""
    text = " ".join(f"w{i}" for i in range(ask.n_reasoning, ask.n_tokens))
    content = {"message": {"role": "assistant", "content": text}} if ask.is_chat else {"text": text}
    choice = {"index": 0, **content, "finish_reason": "length"}
    return json_response(200, {"choices": [choice], "usage": _usage(ask)})


def json_response(status: int, value: Any) -> bytes:
    """A whole response with a JSON body."""
    data = json.dumps(value).encode()
    return b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        REASONS.get(status, b"Error"),
        len(data),
        data,
    )


def error_response(status: int, message: str) -> bytes:
    """A whole response that says what went wrong."""
    return json_response(status, {"error": {"message": message, "code": status}})


def _choice(ask: Ask, text: str, *, is_thought: bool) -> dict[str, Any]:
    name = "reasoning_content" if is_thought else "content"
    content = {"delta": {name: text}} if ask.is_chat else {"text": text}
    return {"index": 0, **content, "finish_reason": None}


def _usage(ask: Ask) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": ask.n_prompt,
        "completion_tokens": ask.n_tokens,
        "total_tokens": ask.n_prompt + ask.n_tokens,
    }
    if ask.n_reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": ask.n_reasoning}
    return usage


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _number(body: dict[str, Any], name: str, default: float) -> float:
    value = body.get(name, default)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise BadRequest(f"{name}: allowed is a number")
    return float(value)


def _whole(body: dict[str, Any], name: str, default: int, most: int = MAX_TOKENS) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadRequest(f"{name}: allowed is a whole number from 0 to {most}")
    return value


Reader = Callable[[dict[str, Any]], Ask]
READERS: Final[dict[str, Reader]] = {
    "/v1/chat/completions": lambda body: parse_ask(body, is_chat=True),
    "/v1/completions": lambda body: parse_ask(body, is_chat=False),
    "/v1/infer": lambda body: parse_ask(body, is_chat=False),
}
"""Routes that ask for tokens; `/v1/infer` is the bundled server's plain one."""
