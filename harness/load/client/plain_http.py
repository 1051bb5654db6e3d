"""Small questions to the target outside measured time: is it there, how long is this text.

Not for measuring: no stamps. Works with and without gevent.
"""

import contextlib
import http.client
import json
import select
import socket
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.base.api_key import hide_key
from harness.base.errors import SetupError
from harness.load.client.endpoint import split_url
from harness.load.client.exchange import bounded

TIMEOUT_S = 30.0
MAX_BYTES = 32 * 2**20
PIECE_BYTES = 65_536


class Reply(NamedTuple):
    """An HTTP answer; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})

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
        parts = split_url(url)
        assert parts.hostname is not None
        self.url = url
        self._timeout_s = timeout_s
        self._is_late = False
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self._key = api_key
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
        self._is_late = False
        self._drop_stale()
        try:
            self._connection.request(method, self._base + path, body=body, headers=headers)
            return self._read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if self._is_late:
                reason = f"not whole within {self._timeout_s:g} s"
            if isinstance(error, ConnectionRefusedError):
                reason += "; start the server, or correct host and port"
            raise SetupError(f"{self.url}{path}: no answer: {reason}") from error

    def _drop_stale(self) -> None:
        """Let go of a connection that the server closed meanwhile, or spoke on unasked."""
        if self._connection.sock is None:
            return
        poll = select.poll()
        poll.register(self._connection.sock, select.POLLIN)
        if poll.poll(0):
            self._connection.close()

    def _read(self) -> Reply:
        """The answer, within the time limit as a whole and not only between two reads."""
        deadline = threading.Timer(self._timeout_s, self._give_up, [self._connection.sock])
        deadline.daemon = True
        deadline.start()
        try:
            response = self._connection.getresponse()
            body = bytearray()
            while piece := response.read(PIECE_BYTES):
                body += piece
                if len(body) > MAX_BYTES:
                    raise http.client.HTTPException(f"more than {MAX_BYTES:,} bytes")
            if self._is_late:
                raise http.client.HTTPException("late")
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, _without(bytes(body), self._key), headers)
        finally:
            deadline.cancel()

    def _give_up(self, sock: socket.socket) -> None:
        self._is_late = True
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _without(body: bytes, key: str | None) -> bytes:
    """The body, which messages show, with our key hidden where the server repeats it."""
    if key is None or key.encode() not in body:
        return body
    return hide_key(body.decode("utf-8", "replace"), key).encode()
