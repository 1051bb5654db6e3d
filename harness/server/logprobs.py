"""Log-probabilities in OpenAI's two shapes.

A token is told by its text; one that is no whole text (part of a character, a marker without text)
by its bytes or its name, so that different tokens stay apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.server.answer import TokenLogprob
    from harness.server.tokenizer import TextTokenizer


def chat_logprobs(
    entries: Sequence[TokenLogprob], tokenizer: TextTokenizer
) -> dict[str, Any] | None:
    """Give `logprobs` of a chat choice; None where no token is told."""
    if not entries:
        return None

    def told(token_id: int, logprob: float) -> dict[str, Any]:
        raw = tokenizer.token_bytes(token_id)
        return {"token": tokenizer.token_name(token_id), "logprob": logprob, "bytes": list(raw)}

    content = [
        {
            **told(entry.token_id, entry.logprob),
            "top_logprobs": [told(*pair) for pair in entry.likeliest],
        }
        for entry in entries
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(
    entries: Sequence[TokenLogprob], tokenizer: TextTokenizer
) -> dict[str, Any] | None:
    """Give `logprobs` of a text choice; the chosen token is among the likeliest."""
    if not entries:
        return None
    name = tokenizer.token_name
    return {
        "tokens": [name(entry.token_id) for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": [
            {name(token_id): logprob for token_id, logprob in entry.likeliest}
            | {name(entry.token_id): entry.logprob}
            for entry in entries
        ],
        "text_offset": [entry.offset for entry in entries],
    }
