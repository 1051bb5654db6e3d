"""The routes that tell of the server itself: model, health, description, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import Response

from harness.server.accel import FEATURES, LOSSY_FEATURES
from harness.server.api_error import ApiError
from harness.server.body import shown
from harness.server.json_answer import Json
from harness.server.metrics_endpoint import OPEN_METRICS, TEXT, wants_open
from harness.server.openapi import build_openapi
from kernels import cpu
from kernels.backend import has_native

if TYPE_CHECKING:
    from harness.server.front import Front


def add_state_routes(app: FastAPI, front: Front) -> None:
    """Add them to the application."""

    @app.get("/v1/models")
    async def models() -> Json:
        entry = {
            "id": front.options.model_name,
            "object": "model",
            "created": front.started_unix_s,
            "owned_by": "tailbreak",
            "max_model_len": front.max_model_len,
            "accel_features": [*FEATURES, *front.pools.named],
            "accel_lossy_features": list(LOSSY_FEATURES),
            "kernels": cpu.native.ISA if has_native() else "torch",
        }
        return Json({"object": "list", "data": [entry]})

    @app.get("/healthz")
    async def healthz() -> Json:
        pools = front.pools.states
        if front.pools.is_alive:
            return Json({"status": "ok", "pools": pools})
        return Json({"status": "the engine process died", "pools": pools}, 503)

    @app.get("/readyz")
    async def readyz() -> Json:
        try:
            front.pools.most_kv_tokens(())
            front.require_room(1)
        except ApiError as error:
            return Json({"status": str(error), "pools": front.pools.states}, 503)
        return Json({"status": "ready", "pools": front.pools.states})

    @app.get("/openapi.json")
    async def openapi() -> Json:
        return Json(build_openapi(front.max_model_len, front.tokenizer.vocab_size))

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        asked = request.query_params.getlist("format")
        if asked not in ([], ["text"]):
            raise ApiError(
                400,
                f"format: got {shown(','.join(asked))}, allowed text, or nothing to go by Accept",
                param="format",
                code="invalid_value",
            )
        is_open = not asked and wants_open(request.headers.get("accept", ""))
        text = front.metrics.expose(front.pools, front.journal_queue, front.pauses, is_open=is_open)
        return Response(text, headers={"Content-Type": OPEN_METRICS if is_open else TEXT})
