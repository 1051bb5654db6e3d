"""Builds exchanges for decoder tests: bodies as servers write them, stamps in milliseconds."""

import json
from typing import Any

from harness.load.client.exchange import BodyPiece, Exchange
from harness.records.request import Outcome

MS = 1_000_000
SSE = {"content-type": "text/event-stream; charset=utf-8"}
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    """One SSE event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, usage: Any = None, **fields: Any) -> bytes:
    """A chat event with these delta fields."""
    value: dict[str, Any] = {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}
    if usage is not None:
        value["usage"] = usage
    return event(value)


def text(content: str, finish: str | None = None) -> bytes:
    """A chat event with output text."""
    return delta(finish, content=content)


def usage(n_output: int, n_prompt: int = 7, **more: Any) -> bytes:
    """The usage event."""
    counts = {"prompt_tokens": n_prompt, "completion_tokens": n_output, **more}
    return event({"choices": [], "usage": counts})


ROLE = delta(role="assistant", content="")
STOP = delta("stop")
LENGTH = delta("length")


def exchange(
    *bodies: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
    failure: Outcome | None = None,
    error: str | None = None,
    together: bool = False,
) -> Exchange:
    """An exchange whose pieces came 10 ms apart (piece i at (i+1)*10 ms), or in one read."""
    pieces = tuple(
        BodyPiece(
            rx_ns=10 * MS if together else (i + 1) * 10 * MS,
            read_ns=11 * MS if together else (i + 1) * 10 * MS + MS,
            data=body,
            read=0 if together else i,
            is_late=together and i > 0,
        )
        for i, body in enumerate(bodies)
    )
    return Exchange(
        started_ns=0,
        sent_ns=MS,
        headers_ns=2 * MS,
        first_byte_ns=2 * MS,
        done_ns=pieces[-1].rx_ns if pieces else 2 * MS,
        ended_ns=(len(pieces) + 2) * 10 * MS,
        status=status,
        headers=SSE if headers is None else headers,
        chunks=pieces,
        failure=failure,
        error=error,
    )
