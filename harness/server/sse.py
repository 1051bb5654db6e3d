"""Event shapes of the OpenAI interface: chunks of a stream and bodies of whole answers.

Two objects, one per route family, with the same methods; the route picks one and knows no shapes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from harness.server.answer import Delta

DONE: Final = b"data: [DONE]\n\n"


def encode_event(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


class Shapes(Protocol):
    """How one route family wraps text."""

    def first(self) -> dict[str, Any] | None:
        """Give the chunk before the first text, if the family has one."""

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap a piece of text."""

    def finish(self, reason: str) -> dict[str, Any]:
        """Give the chunk that carries the finish reason."""

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the chunk without choices that carries the counts."""

    def whole(
        self, content: str, reasoning: str, reason: str, usage: dict[str, object]
    ) -> dict[str, Any]:
        """Wrap a complete answer."""


class ChatShapes:
    """`/v1/chat/completions`."""

    def __init__(self, request_id: str, created: int, model: str) -> None:
        self._head = {"id": f"chatcmpl-{request_id}", "created": created, "model": model}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": choices}

    def _choice(self, delta: dict[str, str], reason: str | None) -> dict[str, Any]:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": reason}])

    def first(self) -> dict[str, Any]:
        """Give the role chunk."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap text as `content` or `reasoning_content`."""
        key = "reasoning_content" if delta.kind == "reasoning" else "content"
        return self._choice({key: delta.text}, None)

    def finish(self, reason: str) -> dict[str, Any]:
        """Give an empty delta with the reason."""
        return self._choice({}, reason)

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the counts without choices."""
        return {**self._chunk([]), "usage": usage}

    def whole(
        self, content: str, reasoning: str, reason: str, usage: dict[str, object]
    ) -> dict[str, Any]:
        """Wrap a complete message."""
        message = {"role": "assistant", "content": content}
        if reasoning:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}


class CompletionShapes:
    """`/v1/completions`; reasoning text travels beside `text` as `reasoning_content`."""

    def __init__(self, request_id: str, created: int, model: str) -> None:
        self._head = {
            "id": f"cmpl-{request_id}",
            "object": "text_completion",
            "created": created,
            "model": model,
        }

    def _chunk(self, **choice: str | None) -> dict[str, Any]:
        return {**self._head, "choices": [{"index": 0, **choice}]}

    def first(self) -> None:
        """Text completions have no role chunk."""

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap text."""
        if delta.kind == "reasoning":
            return self._chunk(text="", reasoning_content=delta.text, finish_reason=None)
        return self._chunk(text=delta.text, finish_reason=None)

    def finish(self, reason: str) -> dict[str, Any]:
        """Give empty text with the reason."""
        return self._chunk(text="", finish_reason=reason)

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the counts without choices."""
        return {**self._head, "choices": [], "usage": usage}

    def whole(
        self, content: str, reasoning: str, reason: str, usage: dict[str, object]
    ) -> dict[str, Any]:
        """Wrap a complete text."""
        extra = {"reasoning_content": reasoning} if reasoning else {}
        return {**self._chunk(text=content, finish_reason=reason, **extra), "usage": usage}
