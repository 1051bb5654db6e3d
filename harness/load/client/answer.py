"""One OpenAI-style answer, folded event by event; knows shapes, not sockets or outcomes.

Every field may be missing, null or empty; only non-empty text is a token. Source of the shapes:
streams of OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, DeepSeek and their proxies.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.load.client.told import whole

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
ERROR_CODE_FIELDS: Final = ("code", "http_status_code", "status", "status_code")
DONE: Final = b"[DONE]"
_parse: Final = json.JSONDecoder().decode


class TextChunk(NamedTuple):
    """An event that carried text.

    Attributes:
        piece: index of the body piece that completed it.
        n_cumulative: output tokens so far by the event's own usage, None without.
        is_output: whether any of it is no reasoning.
    """

    piece: int
    n_cumulative: int | None
    is_output: bool


class StreamError(NamedTuple):
    """An error the server put into the stream."""

    message: str
    code: int | None


@dataclass(kw_only=True)
class Answer:
    """What the events said so far.

    Attributes:
        chunks: events with text, in order.
        finish: finish reason per choice index.
        is_done: the end mark `[DONE]` came.
        error: first in-stream error.
        bad_event: first event that is no JSON, as text.
        usage: last non-null usage; cumulative usage replaces, it is never added.
        timings: the bundled server's own account.
        anomalies: oddities, counted by name.
    """

    keep_text: bool = False
    chunks: list[TextChunk] = field(default_factory=list)
    finish: dict[int, str] = field(default_factory=dict)
    is_done: bool = False
    first_piece: int | None = None
    error: StreamError | None = None
    bad_event: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_text: list[str] = field(default_factory=list)

    def add(self, data: bytes, piece: int) -> None:
        """Fold one event's data; `piece` is the body piece that completed it."""
        if self.first_piece is None:
            self.first_piece = piece
        if data.startswith(b"{"):
            self._add_json(data, piece)
            return
        stripped = data.strip()
        if stripped == DONE:
            self.is_done = True
        elif stripped.startswith(b":"):
            self.anomalies["keepalive_as_data"] += 1
        else:
            self._add_json(data, piece)

    def _add_json(self, data: bytes, piece: int) -> None:
        try:
            value = _parse(data.decode())
        except (ValueError, RecursionError):
            self.anomalies["non_json_event"] += 1
            if self.bad_event is None:
                self.bad_event = data[:200].decode("utf-8", "replace")
            return
        if isinstance(value, dict):
            self._add_object(value, piece)
        else:
            self.anomalies["non_object_event"] += 1

    def _add_object(self, value: dict[str, Any], piece: int) -> None:
        if value.get("error"):
            self.error = self.error or stream_error(value["error"])
        usage = value.get("usage")
        if isinstance(usage, dict):
            self._replace_usage(usage)
        else:
            usage = None
        timings = value.get("timings")
        if isinstance(timings, dict):
            self.timings = timings
        choices = value.get("choices")
        if isinstance(choices, list) and choices:
            self._add_choices(choices, piece, usage)
        elif not (usage or timings or value.get("error") or "choices" in value):
            self.anomalies["empty_object"] += 1

    def _replace_usage(self, usage: dict[str, Any]) -> None:
        count, before = n_output(usage), n_output(self.usage)
        if count is not None and before is not None and count < before:
            self.anomalies["usage_fell"] += 1
        self.usage = usage

    def _add_choices(self, choices: list[Any], piece: int, usage: dict[str, Any] | None) -> None:
        has_text = is_output = False
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.finish[_index(choice)] = reason
            output, thought = self._take_text(choice)
            has_text = has_text or output or thought
            is_output = is_output or output
        if has_text:
            n_cumulative = n_output(usage) if usage else None
            self.chunks.append(TextChunk(piece, n_cumulative, is_output))

    def _take_text(self, choice: dict[str, Any]) -> tuple[bool, bool]:
        """Whether the choice brought output text, and reasoning text."""
        source = choice.get("delta")
        if not isinstance(source, dict):
            message = choice.get("message")
            source = message if isinstance(message, dict) else choice
        content = _text(source.get("content")) or _text(choice.get("text"))
        thought = ""
        for name in REASONING_FIELDS:
            if source.get(name):
                thought = thought or _text(source[name])
        has_tools = source.get("tool_calls") or source.get("function_call")
        tools = _tool_text(source) if has_tools else ""
        if self.keep_text:
            self.text.append(content)
            self.reasoning.append(thought)
            self.tool_text.append(tools)
        return bool(content or tools), bool(thought)


def n_prompt(usage: dict[str, Any]) -> int | None:
    """Prompt tokens, under either of the two names in use."""
    return _count(usage, "prompt_tokens", "input_tokens")


def n_output(usage: dict[str, Any]) -> int | None:
    """Output tokens, under either of the two names in use."""
    return _count(usage, "completion_tokens", "output_tokens")


def n_reasoning(usage: dict[str, Any]) -> int | None:
    """Reasoning tokens, where the details name them."""
    for name in ("completion_tokens_details", "output_tokens_details"):
        details = usage.get(name)
        if isinstance(details, dict):
            return _count(details, "reasoning_tokens")
    return _count(usage, "reasoning_tokens")


def _count(usage: dict[str, Any], *names: str) -> int | None:
    counts = (whole(usage.get(name)) for name in names)
    return next((count for count in counts if count is not None), None)


def _text(value: Any) -> str:
    """Text of a content field: a string, or the text parts of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _tool_text(source: dict[str, Any]) -> str:
    """Names and arguments of tool calls, in either form."""
    calls = source.get("tool_calls")
    functions = [
        call.get("function") for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    ]  # fmt: skip
    functions.append(source.get("function_call"))
    return "".join(
        _text(function.get("name")) + _text(function.get("arguments"))
        for function in functions
        if isinstance(function, dict)
    )


def _index(choice: dict[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def stream_error(error: Any) -> StreamError:
    """An error as servers write it: an object with a code under one of its names, or a string."""
    if not isinstance(error, dict):
        return StreamError(str(error), None)
    message = error.get("message") or error.get("type") or json.dumps(error)
    for name in ERROR_CODE_FIELDS:
        code = error.get(name)
        if isinstance(code, str) and code.isdigit():
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool):
            return StreamError(str(message), code)
    return StreamError(str(message), None)
