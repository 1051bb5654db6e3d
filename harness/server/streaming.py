"""Answers as HTTP responses: a stream of events, or one body; a client that leaves ends either.

The response head of a stream goes out with its first text, so an engine that dies before that is
still answered with a proper status.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from harness.server.answer import Delta, Finish
from harness.server.answers import ChoiceText, Texts
from harness.server.api_error import ApiError
from harness.server.front import answer_headers
from harness.server.front_protocol import TRANSPORT
from harness.server.sse import DONE, Shapes, encode_event

if TYPE_CHECKING:
    from asyncio import Transport
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from harness.server.answers import Answers
    from harness.server.front import Front
    from harness.server.generation import Generation
    from harness.server.schemas import StreamOptions
    from harness.server.timings import Timings


_BLANK: Final = "\0"


class StreamCutError(Exception):
    """A planted fault: this stream ends here."""


class ClientLeftError(Exception):
    """The connection went while the answer was being written."""


class Reply(Response):
    """A response that ends with its client: when the connection goes, the request is cancelled."""

    _transport: Transport

    def __init__(self, front: Front, generation: Generation, answers: Answers) -> None:
        super().__init__()
        self._front = front
        self._generation = generation
        self._answers = answers
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Produce the answer while watching the connection."""
        self._transport = scope[TRANSPORT]
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
            await self._conclude(producing, receive, send)
            return
        producing.cancel()
        # Cancelled once more: the server waits no longer, not even for a client that does not read.
        with suppress(asyncio.CancelledError) if stopping else nullcontext():
            await self._front.break_off(self._generation, self._answers, "cancelled")
            if stopping is not None:
                await self._send_error(stopping, send)

    async def _conclude(
        self,
        producing: asyncio.Future[None],
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a failure of the engine; carry a planted cut out."""
        error = producing.exception()
        if error is None:
            return
        outcome = _OUTCOMES.get(type(error), "error")
        await self._front.break_off(self._generation, self._answers, outcome)
        if isinstance(error, StreamCutError):
            self._transport.close()
            await _until_disconnect(receive)
        elif isinstance(error, ApiError):
            await self._send_error(error, send)
        elif not isinstance(error, ClientLeftError):
            raise error

    async def _send_error(self, error: ApiError, send: Send) -> None:
        """Tell an error in the way that is still open: as a status, or inside the stream."""
        self._front.metrics.record_refused(error.status)
        if self._has_begun:
            await _send_body(send, encode_event(error.body) + DONE, has_more=False)
        else:
            body = json.dumps(error.body).encode()
            headers = {"Content-Type": "application/json", **self._generation.trace_headers}
            await _send_head(send, error.status, headers, len(body))
            await _send_body(send, body, has_more=False)

    async def _produce(self, send: Send) -> None:
        raise NotImplementedError

    async def _complete(self) -> Timings:
        """Close the account of an answer that still has its client.

        What is written to a lost connection is dropped without a word, so an engine that is done
        would otherwise have its answer counted as served.
        """
        if self._transport.is_closing():
            raise ClientLeftError
        return await self._front.complete(self._generation, self._answers)

    async def _begin(self, send: Send, headers: dict[str, str], length: int | None = None) -> None:
        self._has_begun = True
        await _send_head(send, 200, {**headers, **answer_headers(self._generation)}, length)


class StreamReply(Reply):
    """Server-sent events, one per token that completes text; choices interleave as they come."""

    def __init__(
        self,
        front: Front,
        generation: Generation,
        answers: Answers,
        shapes: Shapes,
        options: StreamOptions,
    ) -> None:
        super().__init__(front, generation, answers)
        self._shapes = shapes
        self._options = options
        self._frames: dict[tuple[int, str], tuple[bytes, bytes]] = {}
        self._is_to_be_cut = front.takes_next_stream_away()

    async def _produce(self, send: Send) -> None:
        """Send the events; the last before `[DONE]` carries the timings."""
        answers = self._answers
        async for events in answers.events():
            data = b"".join([self._event(event) for event in events])
            if not self._has_begun:
                data = await self._open(send) + data
            await _send_body(send, data)
            answers.note_handed()
            if self._is_to_be_cut and 2 * answers.n_output >= self._generation.n_output_limit:
                raise StreamCutError
        opening = b"" if self._has_begun else await self._open(send)
        if self._is_to_be_cut:
            raise StreamCutError
        timings = await self._complete()
        await _send_body(send, opening + self._closing(timings), has_more=False)

    async def _open(self, send: Send) -> bytes:
        """Send the head; return the events that come before any text."""
        await self._begin(
            send,
            {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"},
        )
        chunks = [self._shapes.first(index) for index in range(len(self._generation.choices))]
        return b"".join(
            encode_event(self._with_usage(chunk, None)) for chunk in chunks if chunk is not None
        )

    def _event(self, event: Delta | Finish) -> bytes:
        """Encode a piece of text; what surrounds it is the same every time and encoded once."""
        if isinstance(event, Finish):
            return encode_event(self._with_usage(self._shapes.finish(event), None))
        if self._options.continuous_usage_stats or event.logprobs:
            return encode_event(self._with_usage(self._shapes.delta(event), event))
        key = event.choice_index, event.kind
        if key not in self._frames:
            blank = self._shapes.delta(event._replace(text=_BLANK))
            whole = encode_event(self._with_usage(blank, None))
            before, _, after = whole.partition(json.dumps(_BLANK).encode())
            self._frames[key] = before, after
        before, after = self._frames[key]
        return before + json.dumps(event.text).encode() + after

    def _with_usage(self, chunk: dict[str, Any], delta: Delta | None) -> dict[str, Any]:
        """Add running counts when asked; a null `usage` marks chunks before the counting one."""
        if self._options.continuous_usage_stats and delta is not None:
            chunk["usage"] = self._answers.usage_at(delta.n_output, delta.n_reasoning)
        elif self._options.include_usage:
            chunk["usage"] = None
        return chunk

    def _closing(self, timings: Timings) -> bytes:
        """Finish reason, counts when asked, and the timings in the last of them."""
        last = self._shapes.finish(self._answers.last)
        data = b""
        if self._options.include_usage:
            data = encode_event(self._with_usage(last, None))
            last = self._shapes.usage(self._answers.usage)
        last["timings"] = timings.to_json()
        return data + encode_event(last) + DONE


class WholeReply(Reply):
    """One JSON body; `wrap` gives its shape."""

    def __init__(
        self,
        front: Front,
        generation: Generation,
        answers: Answers,
        wrap: Callable[[list[ChoiceText]], dict[str, Any]],
    ) -> None:
        super().__init__(front, generation, answers)
        self._wrap = wrap

    async def _produce(self, send: Send) -> None:
        """Collect the text and send it with its account."""
        texts = Texts(len(self._generation.choices))
        async for events in self._answers.events():
            texts.add(events)
            self._answers.note_handed()
        texts.add([self._answers.last])
        timings = await self._complete()
        value = self._wrap(texts.choices)
        body = json.dumps({**value, "timings": timings.to_json()}).encode()
        headers = {"Content-Type": "application/json", "Server-Timing": timings.server_timing}
        await self._begin(send, headers, len(body))
        await _send_body(send, body, has_more=False)


_OUTCOMES: Final[dict[type[BaseException], str]] = {
    StreamCutError: "dropped",
    ClientLeftError: "cancelled",
}


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
