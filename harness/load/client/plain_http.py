"""Small questions to the target outside measured time: is it there, how long is this text.

Not for measuring: no stamps. Works with and without gevent.
"""

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from harness.base.errors import SetupError
from harness.load.client.exchange import bounded

TIMEOUT_S = 30.0


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def shown(self) -> str:
        """The body's start, for messages."""
        return bounded(self.body[:300].decode("utf-8", "replace"))


class PlainHttp:
    """One keep-alive connection to the target."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise SetupError(f"{url}: allowed is http://host:port; TLS is not in this version")
        self.url = url
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._connection = http.client.HTTPConnection(
            parts.hostname, parts.port or 80, timeout=timeout_s
        )

    def get(self, path: str) -> Reply:
        """GET.

        Raises:
            SetupError: no answer.
        """
        return self._ask("GET", path, None)

    def post(self, path: str, value: Any) -> Reply:
        """POST a JSON value.

        Raises:
            SetupError: no answer.
        """
        return self._ask("POST", path, json.dumps(value, ensure_ascii=False).encode())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None) -> Reply:
        headers = {"Content-Type": "application/json", **self._headers}
        try:
            self._connection.request(method, self._base + path, body=body, headers=headers)
            response = self._connection.getresponse()
            return Reply(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise SetupError(f"{self.url}{path}: no answer: {reason}") from error
