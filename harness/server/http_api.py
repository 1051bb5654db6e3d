"""The routes: what each reads, and which reply it gives.

Bodies are read and validated here and not by FastAPI, so that the size is capped before anything is
parsed and every refusal has OpenAI's shape; `openapi` describes them from the same models.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from harness.server.accel import HEADER
from harness.server.api_error import ApiError
from harness.server.body import BodyT, parse_body, shown_name
from harness.server.gate import Gate
from harness.server.generation import (
    DEFAULT_CHAT_TOKENS,
    DEFAULT_COMPLETION_TOKENS,
    Generation,
)
from harness.server.json_answer import Json
from harness.server.phases import Stopwatch
from harness.server.schemas import (
    MAX_BODY_BYTES,
    ChatBody,
    ChoicesBody,
    CompletionBody,
    DetokenizeBody,
    GenerationBody,
    InferBody,
    StreamOptions,
    TokenizeBody,
)
from harness.server.sse import ChatShapes, CompletionShapes
from harness.server.state_routes import add_state_routes
from harness.server.streaming import StreamReply, WholeReply
from harness.server.trace_context import HEADER as TRACE_HEADER
from harness.server.trace_context import SPAN_ID_LENGTH, read_traceparent, trace_headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from harness.server.answers import Answers, ChoiceText
    from harness.server.front import Front
    from harness.server.schemas import ChatMessage
    from harness.server.trace_context import TraceParent

_log = logging.getLogger(__name__)
GenerationT = TypeVar("GenerationT", bound=GenerationBody)


def build_app(front: Front) -> ASGIApp:
    """Build the ASGI application of one server."""
    app = FastAPI(title="tailbreak serve", docs_url=None, redoc_url=None, openapi_url=None)
    _add_error_handlers(app, front)
    _add_generation_routes(app, front)
    _add_text_routes(app, front)
    add_state_routes(app, front)
    return Gate(app, front.api_key, front.metrics)


def _add_error_handlers(app: FastAPI, front: Front) -> None:
    @app.exception_handler(ApiError)
    async def on_api_error(request: Request, error: ApiError) -> Json:
        front.metrics.record_refused(error.status)
        trace = _trace_of(request)
        traced = trace_headers(trace, secrets.token_hex(SPAN_ID_LENGTH // 2))
        _log.debug("%s of trace %s", error.status, trace and trace.trace_id)
        return Json(error.body, error.status, {**error.headers, **traced})

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Json:
        front.metrics.record_refused(error.status_code)
        message = f"{request.method} {shown_name(request.url.path)}: {error.detail}"
        body = ApiError(error.status_code, message).body
        return Json(body, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def on_defect(_: Request, error: Exception) -> Json:
        # The trace is logged by the server; the client learns that it was not its fault.
        del error
        front.metrics.record_refused(500)
        return Json(ApiError(500, "a defect in the server", code="defect").body, 500)


def _trace_of(request: Request) -> TraceParent | None:
    return read_traceparent(request.headers.getlist(TRACE_HEADER))


async def _read_body(front: Front, request: Request, schema: type[BodyT]) -> BodyT:
    """Cap the size, validate."""
    raw = bytearray()
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > MAX_BODY_BYTES:
                raise ApiError(
                    413, f"body: allowed {MAX_BODY_BYTES} bytes", code="request_too_large"
                )
    except ClientDisconnect:
        raise ApiError(400, "body: the client left before its end", code="client_left") from None
    except asyncio.CancelledError:
        raise ApiError(503, "the server is stopping", code="stopping") from None
    body = parse_body(bytes(raw), schema)
    front.require_model(getattr(body, "model", None))
    return body


async def _begin(
    front: Front, request: Request, schema: type[GenerationT], default_tokens: int
) -> tuple[GenerationT, Generation, Answers]:
    """Take a generating request as far as the engine; its account begins at its arrival."""
    arrival_ns: int = request.scope["tailbreak.arrival_ns"]
    watch = Stopwatch(front.pauses, arrival_ns)
    body = await _read_body(front, request, schema)
    front.fail_by_plan()
    # Before any work is spent on it; and once more when it is handed to the engine.
    front.require_room(body.n_choices)
    watch.lap("stream")
    prompts = await _prompts_of(front, body)
    watch.lap("tokenize")
    generation, answers = front.begin(
        body,
        prompts,
        # Repeated header fields are one list, as HTTP has it.
        accel=",".join(request.headers.getlist(HEADER)),
        watch=watch,
        arrival_ns=arrival_ns,
        default_tokens=default_tokens,
        trace=_trace_of(request),
    )
    return body, generation, answers


async def _prompts_of(front: Front, body: GenerationBody) -> list[list[int]]:
    """Turn whatever stands for the prompts into token ids."""
    if isinstance(body, ChatBody):
        return [await _encode_chat(front, body.messages)]
    if isinstance(body, InferBody):
        return await _encode(front, [body.prompt])
    assert isinstance(body, CompletionBody)
    texts = [prompt for prompt in body.prompts if isinstance(prompt, str)]
    if texts:
        return await _encode(front, texts)
    prompts = [prompt for prompt in body.prompts if isinstance(prompt, list)]
    for index, ids in enumerate(prompts):
        _require_ids(front, ids, "prompt" if len(prompts) == 1 else f"prompt[{index}]")
    return prompts


async def _encode(front: Front, texts: list[str]) -> list[list[int]]:
    front.require_length(texts, "prompt")
    return await front.encode(texts)


async def _encode_chat(front: Front, messages: list[ChatMessage]) -> list[int]:
    front.require_length(["".join(message.text for message in messages)], "messages")
    return await front.encode_chat(messages)


def _require_ids(front: Front, ids: list[int], name: str) -> None:
    """Refuse token ids outside the vocabulary."""
    vocab_size = front.tokenizer.vocab_size
    for index, token_id in enumerate(ids):
        if token_id >= vocab_size:
            raise ApiError(
                400,
                f"{name}[{index}]: got {token_id}, allowed token ids 0 to {vocab_size - 1}",
                param=f"{name}[{index}]",
                code="invalid_value",
            )


def _add_generation_routes(app: FastAPI, front: Front) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        begun = await _begin(front, request, ChatBody, DEFAULT_CHAT_TOKENS)
        return _reply(front, *begun, ChatShapes)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        begun = await _begin(front, request, CompletionBody, DEFAULT_COMPLETION_TOKENS)
        return _reply(front, *begun, CompletionShapes)

    @app.post("/v1/infer")
    async def infer(request: Request) -> Response:
        _, generation, answers = await _begin(front, request, InferBody, DEFAULT_COMPLETION_TOKENS)

        def wrap(choices: list[ChoiceText]) -> dict[str, Any]:
            (choice,) = choices
            counts = {"n_prompt_tokens": generation.n_prompt, "n_output_tokens": answers.n_output}
            has_reasoning = generation.choices[0].has_reasoning
            extra = {"reasoning": choice.reasoning} if has_reasoning else {}
            return {"text": choice.content, **extra, **counts}

        return WholeReply(front, generation, answers, wrap)


def _reply(
    front: Front,
    body: ChoicesBody,
    generation: Generation,
    answers: Answers,
    family: type[ChatShapes | CompletionShapes],
) -> Response:
    """Stream or not, as the body asks."""
    head = {
        "id": generation.request_id,
        "created": front.clock.realtime_ns() // 10**9,
        "model": front.options.model_name,
        "system_fingerprint": front.fingerprint + generation.placement.pool.mark,
    }
    shapes = family(head, None if body.n_logprobs is None else front.tokenizer)
    if body.stream:
        options = body.stream_options or StreamOptions()
        return StreamReply(front, generation, answers, shapes, options)

    def wrap(choices: list[ChoiceText]) -> dict[str, Any]:
        return shapes.whole(choices, answers.usage)

    return WholeReply(front, generation, answers, wrap)


def _add_text_routes(app: FastAPI, front: Front) -> None:
    @app.post("/tokenize")
    async def tokenize(request: Request) -> Json:
        body = await _read_body(front, request, TokenizeBody)
        given = [body.prompt is not None, body.prompts is not None, body.messages is not None]
        if sum(given) != 1:
            raise ApiError(400, "body: allowed exactly one of prompt, prompts, messages")
        limit = {"max_model_len": front.max_model_len}
        if body.messages is not None:
            if "add_special_tokens" in body.model_fields_set:
                raise ApiError(
                    400,
                    "add_special_tokens: got a value with messages, whose template is fixed",
                    param="add_special_tokens",
                    code="invalid_value",
                )
            ids = await front.encode_chat(body.messages)
            return Json({"count": len(ids), **limit, "tokens": ids})
        texts = [body.prompt or ""] if body.prompts is None else body.prompts
        encoded = await front.encode(texts, has_bos=body.add_special_tokens)
        if body.prompts is not None:
            return Json({"counts": [len(ids) for ids in encoded], **limit})
        ids = encoded[0]
        return Json({"count": len(ids), **limit, "tokens": ids})

    @app.post("/detokenize")
    async def detokenize(request: Request) -> Json:
        body = await _read_body(front, request, DetokenizeBody)
        _require_ids(front, body.tokens, "tokens")
        return Json({"prompt": front.tokenizer.decode(body.tokens)})
