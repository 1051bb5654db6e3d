"""The routes: what each reads, and which reply it gives.

Bodies are read and validated here and not by FastAPI, so that the size is capped before anything is
parsed and every refusal has OpenAI's shape.
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from harness.server.accel import EXACT_FEATURES, HEADER
from harness.server.api_error import ApiError
from harness.server.generation import (
    DEFAULT_CHAT_TOKENS,
    DEFAULT_COMPLETION_TOKENS,
    Generation,
)
from harness.server.metrics_endpoint import CONTENT_TYPE
from harness.server.phases import Stopwatch
from harness.server.schemas import (
    MAX_BODY_BYTES,
    BodyT,
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    GenerationBody,
    InferBody,
    StreamingBody,
    StreamOptions,
    TokenizeBody,
    parse_body,
)
from harness.server.sse import ChatShapes, CompletionShapes, Shapes
from harness.server.streaming import StreamReply, WholeReply

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from harness.server.answer import Answer
    from harness.server.front import Front

GenerationT = TypeVar("GenerationT", bound=GenerationBody)


class Arrival:
    """The outermost layer: stamps when a request came in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stamp and pass on."""
        scope["tailbreak.arrival_ns"] = time.perf_counter_ns()
        await self._app(scope, receive, send)


def build_app(front: Front) -> ASGIApp:
    """Build the ASGI application of one server."""
    app = FastAPI(title="tailbreak serve", docs_url=None, redoc_url=None, openapi_url=None)
    _add_error_handlers(app, front)
    _add_generation_routes(app, front)
    _add_text_routes(app, front)
    _add_state_routes(app, front)
    return Arrival(app)


def _add_error_handlers(app: FastAPI, front: Front) -> None:
    @app.exception_handler(ApiError)
    async def on_api_error(_: Request, error: ApiError) -> JSONResponse:
        front.metrics.record_refused(error.status)
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> JSONResponse:
        front.metrics.record_refused(error.status_code)
        message = f"{request.method} {request.url.path}: {error.detail}"
        body = ApiError(error.status_code, message).body
        return JSONResponse(body, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def on_defect(_: Request, error: Exception) -> JSONResponse:
        # The trace is logged by the server; the client learns that it was not its fault.
        del error
        front.metrics.record_refused(500)
        return JSONResponse(ApiError(500, "a defect in the server", code="defect").body, 500)


async def _read_body(front: Front, request: Request, schema: type[BodyT]) -> BodyT:
    """Check the key, cap the size, validate."""
    if front.api_key is not None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), front.api_key.encode()):
            raise ApiError(401, "Authorization: wrong or no bearer key", code="invalid_api_key")
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > MAX_BODY_BYTES:
            raise ApiError(413, f"body: allowed {MAX_BODY_BYTES} bytes", code="request_too_large")
    body = parse_body(bytes(raw), schema)
    front.require_model(getattr(body, "model", None))
    return body


async def _begin(
    front: Front, request: Request, schema: type[GenerationT], default_tokens: int
) -> tuple[GenerationT, Generation, Answer]:
    """Take a generating request as far as the engine; its account begins at its arrival."""
    arrival_ns: int = request.scope["tailbreak.arrival_ns"]
    watch = Stopwatch(front.pauses, arrival_ns)
    body = await _read_body(front, request, schema)
    _require_stream(body)
    front.require_room()
    watch.lap("stream")
    tokens = await _tokens_of(front, body)
    watch.lap("tokenize")
    generation, answer = front.begin(
        body,
        tokens,
        accel=request.headers.get(HEADER),
        watch=watch,
        arrival_ns=arrival_ns,
        default_tokens=default_tokens,
    )
    return body, generation, answer


def _require_stream(body: GenerationBody) -> None:
    """Refuse options that only a stream would honour."""
    if isinstance(body, StreamingBody) and body.stream_options is not None and not body.stream:
        raise ApiError(
            400,
            "stream_options: got an object without stream, allowed only with stream = true",
            param="stream_options",
            code="invalid_value",
        )


async def _tokens_of(front: Front, body: GenerationBody) -> list[int]:
    """Turn whatever stands for the prompt into token ids."""
    if isinstance(body, ChatBody):
        return await front.encode_chat(body.messages)
    assert isinstance(body, InferBody | CompletionBody)
    if isinstance(body.prompt, str):
        return (await front.encode([body.prompt]))[0]
    _require_ids(front, body.prompt, "prompt")
    return body.prompt


def _require_ids(front: Front, ids: list[int], name: str) -> None:
    """Refuse token ids outside the vocabulary."""
    vocab_size = front.tokenizer.vocab_size
    for index, token_id in enumerate(ids):
        if token_id >= vocab_size:
            raise ApiError(
                400,
                f"{name}.{index}: got {token_id}, allowed token ids 0 to {vocab_size - 1}",
                param=name,
                code="invalid_value",
            )


def _add_generation_routes(app: FastAPI, front: Front) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body, generation, answer = await _begin(front, request, ChatBody, DEFAULT_CHAT_TOKENS)
        shapes = ChatShapes(generation.request_id, _now_s(front), front.options.model_name)
        return _reply(front, body, generation, answer, shapes)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        body, generation, answer = await _begin(
            front, request, CompletionBody, DEFAULT_COMPLETION_TOKENS
        )
        shapes = CompletionShapes(generation.request_id, _now_s(front), front.options.model_name)
        return _reply(front, body, generation, answer, shapes)

    @app.post("/v1/infer")
    async def infer(request: Request) -> Response:
        _, generation, answer = await _begin(front, request, InferBody, DEFAULT_COMPLETION_TOKENS)

        def wrap(content: str, reasoning: str) -> dict[str, Any]:
            counts = {"n_prompt_tokens": generation.n_prompt, "n_output_tokens": answer.n_output}
            extra = {"reasoning": reasoning} if generation.has_reasoning else {}
            return {"text": content, **extra, **counts}

        return WholeReply(front, generation, answer, wrap)


def _now_s(front: Front) -> int:
    return front.clock.realtime_ns() // 10**9


def _reply(
    front: Front, body: StreamingBody, generation: Generation, answer: Answer, shapes: Shapes
) -> Response:
    """Stream or not, as the body asks."""
    if body.stream:
        options = body.stream_options or StreamOptions()
        return StreamReply(front, generation, answer, shapes, options)

    def wrap(content: str, reasoning: str) -> dict[str, Any]:
        return shapes.whole(content, reasoning, answer.finish_reason, answer.usage)

    return WholeReply(front, generation, answer, wrap)


def _add_text_routes(app: FastAPI, front: Front) -> None:
    @app.post("/tokenize")
    async def tokenize(request: Request) -> JSONResponse:
        body = await _read_body(front, request, TokenizeBody)
        given = [body.prompt is not None, body.prompts is not None, body.messages is not None]
        if sum(given) != 1:
            raise ApiError(400, "body: allowed exactly one of prompt, prompts, messages")
        limit = {"max_model_len": front.limits.max_model_len}
        if body.messages is not None:
            if "add_special_tokens" in body.model_fields_set:
                raise ApiError(
                    400, "add_special_tokens: not with messages, whose template is fixed"
                )
            ids = await front.encode_chat(body.messages)
            return JSONResponse({"count": len(ids), **limit, "tokens": ids})
        texts = [body.prompt or ""] if body.prompts is None else body.prompts
        encoded = await front.encode(texts, has_bos=body.add_special_tokens)
        if body.prompts is not None:
            return JSONResponse({"counts": [len(ids) for ids in encoded], **limit})
        ids = encoded[0]
        return JSONResponse({"count": len(ids), **limit, "tokens": ids})

    @app.post("/detokenize")
    async def detokenize(request: Request) -> JSONResponse:
        body = await _read_body(front, request, DetokenizeBody)
        _require_ids(front, body.tokens, "tokens")
        return JSONResponse({"prompt": front.tokenizer.decode(body.tokens)})


def _add_state_routes(app: FastAPI, front: Front) -> None:
    @app.get("/v1/models")
    async def models() -> JSONResponse:
        entry = {
            "id": front.options.model_name,
            "object": "model",
            "created": front.started_unix_s,
            "owned_by": "tailbreak",
            "max_model_len": front.limits.max_model_len,
            "accel_features": list(EXACT_FEATURES),
        }
        return JSONResponse({"object": "list", "data": [entry]})

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        if front.link.is_alive:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "the engine process died"}, 503)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        try:
            front.require_room()
        except ApiError as error:
            return JSONResponse({"status": str(error)}, 503)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics")
    async def metrics() -> Response:
        text = front.metrics.expose(front.link.gauges, front.journal.n_failed)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})
