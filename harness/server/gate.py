"""The outermost layer: stamps when a request came in, and turns away who has no key.

Health, readiness and metrics are open, as orchestrators and Prometheus expect; all else needs the
key if the server has one. The key is checked before a byte of the body is read.
"""

from __future__ import annotations

import hmac
import json
import time
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from harness.server.api_error import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from harness.server.metrics_endpoint import ServerMetrics

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class Gate:
    """Stamps and checks, then passes on."""

    def __init__(self, app: ASGIApp, api_key: str | None, metrics: ServerMetrics) -> None:
        self._app = app
        self._key = None if api_key is None else api_key.encode()
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        scope["tailbreak.arrival_ns"] = time.perf_counter_ns()
        if self._key is None or scope["path"] in OPEN_PATHS or has_key(scope, self._key):
            await self._app(scope, receive, send)
            return
        error = ApiError(401, "Authorization: wrong or no bearer key", code="invalid_api_key")
        self._metrics.record_refused(error.status)
        body = json.dumps(error.body).encode()
        answer = Response(body, error.status, error.headers, media_type="application/json")
        await answer(scope, receive, send)


def has_key(scope: Scope, key: bytes) -> bool:
    """Whether the one `Authorization` is `Bearer` and the key; takes the same time in any case."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        return False
    scheme, _, token = given[0].partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), key)
