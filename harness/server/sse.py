"""Event shapes of the OpenAI interface: chunks of a stream and bodies of whole answers.

Two objects, one per route family, with the same methods; the route picks one and knows no shapes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.server.logprobs import chat_logprobs, completion_logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.server.answer import Delta, Finish, TokenLogprob
    from harness.server.answers import ChoiceText
    from harness.server.tokenizer import TextTokenizer

DONE: Final = b"data: [DONE]\n\n"


def encode_event(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


class Shapes(Protocol):
    """How one route family wraps text."""

    def first(self, index: int) -> dict[str, Any] | None:
        """Give the chunk before a choice's first text, if the family has one."""

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap a piece of text."""

    def finish(self, finish: Finish) -> dict[str, Any]:
        """Give the chunk that carries the finish reason."""

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the chunk without choices that carries the counts."""

    def whole(self, choices: Sequence[ChoiceText], usage: dict[str, object]) -> dict[str, Any]:
        """Wrap a complete answer."""


class ChatShapes:
    """`/v1/chat/completions`; `tokenizer` is given when log-probabilities are asked for."""

    def __init__(self, head: dict[str, Any], tokenizer: TextTokenizer | None) -> None:
        self._head = {**head, "id": f"chatcmpl-{head['id']}"}
        self._tokenizer = tokenizer

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": choices}

    def _choice(
        self,
        index: int,
        delta: dict[str, str],
        reason: str | None,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> dict[str, Any]:
        extra = self._extra(logprobs)
        return self._chunk([{"index": index, "delta": delta, **extra, "finish_reason": reason}])

    def _extra(self, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        if self._tokenizer is None:
            return {}
        return {"logprobs": chat_logprobs(logprobs, self._tokenizer)}

    def first(self, index: int) -> dict[str, Any]:
        """Give the role chunk."""
        return self._choice(index, {"role": "assistant", "content": ""}, None)

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap text as `content` or `reasoning_content`."""
        key = "reasoning_content" if delta.kind == "reasoning" else "content"
        return self._choice(delta.choice_index, {key: delta.text}, None, delta.logprobs)

    def finish(self, finish: Finish) -> dict[str, Any]:
        """Give an empty delta with the reason."""
        return self._choice(finish.choice_index, {}, finish.reason, finish.logprobs)

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the counts without choices."""
        return {**self._chunk([]), "usage": usage}

    def whole(self, choices: Sequence[ChoiceText], usage: dict[str, object]) -> dict[str, Any]:
        """Wrap complete messages."""
        wrapped = []
        for choice in choices:
            message = {"role": "assistant", "content": choice.content}
            if choice.reasoning:
                message["reasoning_content"] = choice.reasoning
            extra = self._extra(choice.logprobs)
            told = {"message": message, **extra, "finish_reason": choice.reason}
            wrapped.append({"index": choice.choice_index, **told})
        return {**self._head, "object": "chat.completion", "choices": wrapped, "usage": usage}


class CompletionShapes:
    """`/v1/completions`; reasoning text travels beside `text` as `reasoning_content`."""

    def __init__(self, head: dict[str, Any], tokenizer: TextTokenizer | None) -> None:
        self._head = {**head, "id": f"cmpl-{head['id']}", "object": "text_completion"}
        self._tokenizer = tokenizer

    def _chunk(
        self, index: int, logprobs: Sequence[TokenLogprob], **choice: str | None
    ) -> dict[str, Any]:
        return {**self._head, "choices": [self._choice(index, logprobs, **choice)]}

    def _choice(
        self, index: int, logprobs: Sequence[TokenLogprob], **choice: str | None
    ) -> dict[str, Any]:
        if self._tokenizer is None:
            return {"index": index, **choice}
        return {
            "index": index,
            "logprobs": completion_logprobs(logprobs, self._tokenizer),
            **choice,
        }

    def first(self, index: int) -> None:
        """Text completions have no role chunk."""

    def delta(self, delta: Delta) -> dict[str, Any]:
        """Wrap text."""
        if delta.kind == "reasoning":
            extra = {"text": "", "reasoning_content": delta.text}
            return self._chunk(delta.choice_index, delta.logprobs, **extra, finish_reason=None)
        return self._chunk(delta.choice_index, delta.logprobs, text=delta.text, finish_reason=None)

    def finish(self, finish: Finish) -> dict[str, Any]:
        """Give empty text with the reason."""
        return self._chunk(
            finish.choice_index, finish.logprobs, text="", finish_reason=finish.reason
        )

    def usage(self, usage: dict[str, object]) -> dict[str, Any]:
        """Give the counts without choices."""
        return {**self._head, "choices": [], "usage": usage}

    def whole(self, choices: Sequence[ChoiceText], usage: dict[str, object]) -> dict[str, Any]:
        """Wrap complete texts."""
        wrapped = []
        for choice in choices:
            extra = {"reasoning_content": choice.reasoning} if choice.reasoning else {}
            told = {"text": choice.content, "finish_reason": choice.reason, **extra}
            wrapped.append(self._choice(choice.choice_index, choice.logprobs, **told))
        return {**self._head, "choices": wrapped, "usage": usage}
