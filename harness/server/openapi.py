"""`/openapi.json`: what the routes take and give, built from the same models that check requests.

Nothing is described twice: ranges come from `schemas`, statuses from one table here. What a schema
cannot say (fields that exclude each other, a context that does not fit) is a 400.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from harness.records.environment import version_of
from harness.server.accel import FEATURES, HEADER
from harness.server.foreign_fields import NEUTRAL_VALUES
from harness.server.schemas import (
    Body,
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    InferBody,
    TokenizeBody,
)

_REFERENCE: Final = "#/components/schemas/{model}"
_BODIES: Final[dict[str, type[Body]]] = {
    "/v1/chat/completions": ChatBody,
    "/v1/completions": CompletionBody,
    "/v1/infer": InferBody,
    "/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
}
_GIVES: Final[dict[str, tuple[str, ...]]] = {
    "/v1/chat/completions": ("id", "object", "created", "model", "choices", "usage", "timings"),
    "/v1/completions": ("id", "object", "created", "model", "choices", "usage", "timings"),
    "/v1/infer": ("text", "n_prompt_tokens", "n_output_tokens", "timings"),
    "/tokenize": ("max_model_len",),
    "/detokenize": ("prompt",),
    "/v1/models": ("object", "data"),
    "/healthz": ("status",),
    "/readyz": ("status",),
    "/openapi.json": ("openapi", "info", "paths"),
}
_TEXT_PATHS: Final = ("/metrics",)
_REFUSALS: Final = {
    400: "a field is unknown, missing or out of range; the message names it, its value, its range",
    401: "no key, or a wrong one",
    404: "no such model",
    408: "the request was not complete within --client-timeout",
    413: "the body is longer than 1 MiB",
    429: "the queue is full; Retry-After estimates when it will be empty",
    431: "the head is longer than 64 KiB",
    500: "the engine failed this request, or a defect",
    503: "the engine is gone, or the server is stopping",
}


def build_openapi(max_model_len: int, vocab_size: int) -> dict[str, Any]:
    """Describe a server with these limits."""
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in _BODIES.values()], ref_template=_REFERENCE
    )
    schemas = definitions["$defs"]
    for name, schema in schemas.items():
        _let_null_be_absent(schema)
        if any(name == body.__name__ for body in _BODIES.values()):
            _let_neutral_values_in(schema)
    _set_limits(schemas, max_model_len, vocab_size)
    schemas["Error"] = _ERROR
    paths = {
        **{path: {"post": _post(path, body)} for path, body in _BODIES.items()},
        **{path: {"get": _get(path)} for path in _GIVES if path not in _BODIES},
        **{path: {"get": _get_text(path)} for path in _TEXT_PATHS},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "tailbreak serve", "version": version_of("tailbreak")},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _let_null_be_absent(schema: dict[str, Any]) -> None:
    """Allow null for what may be left out."""
    for name, field in schema.get("properties", {}).items():
        if name not in schema.get("required", []):
            inner = {key: value for key, value in field.items() if key != "default"}
            schema["properties"][name] = {"anyOf": [inner, {"type": "null"}]}


def _let_neutral_values_in(schema: dict[str, Any]) -> None:
    """Allow foreign fields with the values that ask nothing."""
    for name, values in NEUTRAL_VALUES.items():
        schema["properties"].setdefault(name, {"enum": [*values, None]})


def _set_limits(schemas: dict[str, Any], max_model_len: int, vocab_size: int) -> None:
    """Give this server's own limits where a schema can."""
    for schema in schemas.values():
        for name in ("max_tokens", "max_completion_tokens"):
            for option in schema["properties"].get(name, {}).get("anyOf", []):
                _replace(option, "maximum", max_model_len)
        _replace(schema, "exclusiveMaximum", vocab_size, where=1 << 31)


def _replace(schema: Any, key: str, value: int, where: int | None = None) -> None:
    """Set `key` wherever it stands, or wherever it stands for `where`."""
    if isinstance(schema, dict):
        if key in schema and where in {None, schema[key]}:
            schema[key] = value
        for inner in schema.values():
            _replace(inner, key, value, where)
    elif isinstance(schema, list):
        for inner in schema:
            _replace(inner, key, value, where)


def _post(path: str, body: type[Body]) -> dict[str, Any]:
    content: dict[str, Any] = _json(_object(*_GIVES[path]))
    operation: dict[str, Any] = {
        "operationId": body.__name__,
        "requestBody": {
            "required": True,
            "content": _json({"$ref": _REFERENCE.format(model=body.__name__)}),
        },
    }
    if path in ("/v1/chat/completions", "/v1/completions"):
        event = {**_object("data"), "properties": {"data": {"type": "string"}}}
        content["text/event-stream"] = {"schema": event}
    if path.startswith("/v1/"):
        operation["parameters"] = [_accel_header()]
    ok = {"200": {"description": "the answer", "content": content}}
    return {**operation, "responses": ok | _refusals(*_REFUSALS)}


def _get(path: str) -> dict[str, Any]:
    ok = {"200": {"description": "the state", "content": _json(_object(*_GIVES[path]))}}
    if path in ("/healthz", "/readyz"):
        unready = {"description": "not now", "content": _json(_object("status"))}
        return {"responses": ok | {"503": unready} | _refusals(408, 431)}
    return {"responses": ok | _refusals(401, 408, 431)}


def _get_text(path: str) -> dict[str, Any]:
    kinds = ("text/plain", "application/openmetrics-text")
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    text_only = {
        "name": "format",
        "in": "query",
        "required": False,
        "description": "text for text format 0.0.4 whatever is accepted",
        "schema": {"enum": ["text"]},
    }
    ok = {"200": {"description": "series", "content": content}}
    return {
        "operationId": path.strip("/"),
        "parameters": [text_only],
        "responses": ok | _refusals(400, 408, 431),
    }


def _accel_header() -> dict[str, Any]:
    word = "|".join(["true", *FEATURES])
    return {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "which features to run; prefix_cache needs paged_kv or packed_state",
        "schema": {"type": "string", "pattern": f"^(false|({word})(,({word}))*)$"},
    }


def _refusals(*statuses: int) -> dict[str, Any]:
    content = _json({"$ref": _REFERENCE.format(model="Error")})
    return {
        str(status): {"description": _REFUSALS[status], "content": content} for status in statuses
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _object(*required: str) -> dict[str, Any]:
    return {"type": "object", "required": list(required)}


_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "additionalProperties": False,
            "properties": {
                "message": {"type": "string", "minLength": 1},
                "type": {
                    "enum": [
                        "invalid_request_error",
                        "authentication_error",
                        "rate_limit_error",
                        "server_error",
                    ]
                },
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
