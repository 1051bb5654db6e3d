"""A JSON answer of a route."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import Response


class Json(Response):
    """A JSON answer in ASCII: what a client sent may come back in it, half characters included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
