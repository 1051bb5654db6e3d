"""Answers as HTTP responses: a stream of events, or one body; a client that leaves ends either.

The response head of a stream goes out with its first text, so an engine that dies before that is
still answered with a proper status.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from harness.server.api_error import ApiError
from harness.server.front import answer_headers
from harness.server.sse import DONE, Shapes, encode_event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from harness.server.answer import Answer, Delta
    from harness.server.front import Front
    from harness.server.generation import Generation
    from harness.server.schemas import StreamOptions
    from harness.server.timings import Timings


_BLANK: Final = "\0"


class Reply(Response):
    """A response that ends with its client: when the connection goes, the request is cancelled."""

    def __init__(self, front: Front, generation: Generation, answer: Answer) -> None:
        super().__init__()
        self._front = front
        self._generation = generation
        self._answer = answer
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Produce the answer while watching the connection."""
        del scope
        producing = asyncio.ensure_future(self._produce(send))
        watching = asyncio.ensure_future(_until_disconnect(receive))
        stopping: ApiError | None = None
        try:
            await asyncio.wait({producing, watching}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the server stops and will wait no longer
            stopping = ApiError(503, "the server is stopping", code="stopping")
        finally:
            watching.cancel()
        if producing.done():
            await self._conclude(producing, send)
            return
        producing.cancel()
        self._front.break_off(self._generation, self._answer, "cancelled")
        if stopping is not None:
            await self._send_error(stopping, send)

    async def _conclude(self, producing: asyncio.Future[None], send: Send) -> None:
        """Answer a failure of the engine."""
        error = producing.exception()
        if error is None:
            return
        self._front.break_off(self._generation, self._answer, "error")
        if not isinstance(error, ApiError):
            raise error
        await self._send_error(error, send)

    async def _send_error(self, error: ApiError, send: Send) -> None:
        """Tell an error in the way that is still open: as a status, or inside the stream."""
        self._front.metrics.record_refused(error.status)
        if self._has_begun:
            await _send_body(send, encode_event(error.body) + DONE, has_more=False)
        else:
            body = json.dumps(error.body).encode()
            await _send_head(send, error.status, {"Content-Type": "application/json"}, len(body))
            await _send_body(send, body, has_more=False)

    async def _produce(self, send: Send) -> None:
        raise NotImplementedError

    async def _begin(self, send: Send, headers: dict[str, str], length: int | None = None) -> None:
        self._has_begun = True
        await _send_head(send, 200, {**headers, **answer_headers(self._generation)}, length)


class StreamReply(Reply):
    """Server-sent events, one per token that completes text."""

    def __init__(
        self,
        front: Front,
        generation: Generation,
        answer: Answer,
        shapes: Shapes,
        options: StreamOptions,
    ) -> None:
        super().__init__(front, generation, answer)
        self._shapes = shapes
        self._options = options
        self._frames: dict[str, tuple[bytes, bytes]] = {}

    async def _produce(self, send: Send) -> None:
        """Send the events; the last before `[DONE]` carries the timings."""
        answer = self._answer
        async for deltas in answer.deltas():
            data = b"".join(self._event(delta) for delta in deltas)
            if not self._has_begun:
                data = await self._open(send) + data
            await _send_body(send, data)
            answer.note_handed()
        opening = b"" if self._has_begun else await self._open(send)
        timings = self._front.complete(self._generation, answer)
        await _send_body(send, opening + self._closing(timings), has_more=False)

    async def _open(self, send: Send) -> bytes:
        """Send the head; return the event that comes before any text."""
        await self._begin(
            send,
            {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"},
        )
        first = self._shapes.first()
        return b"" if first is None else encode_event(self._with_usage(first, None))

    def _event(self, delta: Delta) -> bytes:
        """Encode a piece of text; what surrounds it is the same every time and encoded once."""
        if self._options.continuous_usage_stats:
            return encode_event(self._with_usage(self._shapes.delta(delta), delta))
        if delta.kind not in self._frames:
            blank = self._shapes.delta(delta._replace(text=_BLANK))
            event = encode_event(self._with_usage(blank, None))
            before, _, after = event.partition(json.dumps(_BLANK).encode())
            self._frames[delta.kind] = before, after
        before, after = self._frames[delta.kind]
        return before + json.dumps(delta.text).encode() + after

    def _with_usage(self, chunk: dict[str, Any], delta: Delta | None) -> dict[str, Any]:
        """Add running counts when asked; a null `usage` marks chunks before the counting one."""
        if self._options.continuous_usage_stats and delta is not None:
            chunk["usage"] = self._generation.usage(delta.n_output, delta.n_reasoning)
        elif self._options.include_usage:
            chunk["usage"] = None
        return chunk

    def _closing(self, timings: Timings) -> bytes:
        """Finish reason, counts when asked, and the timings in the last of them."""
        last = self._shapes.finish(self._answer.finish_reason)
        data = b""
        if self._options.include_usage:
            data = encode_event(self._with_usage(last, None))
            last = self._shapes.usage(self._answer.usage)
        last["timings"] = timings.to_json()
        return data + encode_event(last) + DONE


class WholeReply(Reply):
    """One JSON body; `wrap` gives its shape."""

    def __init__(
        self,
        front: Front,
        generation: Generation,
        answer: Answer,
        wrap: Callable[[str, str], dict[str, Any]],
    ) -> None:
        super().__init__(front, generation, answer)
        self._wrap = wrap

    async def _produce(self, send: Send) -> None:
        """Collect the text and send it with its account."""
        texts: dict[str, list[str]] = {"content": [], "reasoning": []}
        async for deltas in self._answer.deltas():
            for delta in deltas:
                texts[delta.kind].append(delta.text)
            self._answer.note_handed()
        timings = self._front.complete(self._generation, self._answer)
        value = self._wrap("".join(texts["content"]), "".join(texts["reasoning"]))
        body = json.dumps({**value, "timings": timings.to_json()}).encode()
        headers = {"Content-Type": "application/json", "Server-Timing": timings.server_timing}
        await self._begin(send, headers, len(body))
        await _send_body(send, body, has_more=False)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_head(
    send: Send, status: int, headers: dict[str, str], length: int | None = None
) -> None:
    if length is not None:
        headers = {**headers, "Content-Length": str(length)}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


def _send_body(send: Send, data: bytes, *, has_more: bool = True) -> Awaitable[None]:
    return send({"type": "http.response.body", "body": data, "more_body": has_more})
