"""Plain HTTP/1.1 to a server under test: requests, raw sockets, metrics, and waiting for facts."""

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from harness.server.process import RunningServer

WORDS = "the river ran past the old house and the child asked why it never stopped "
HALF_REQUESTS = (
    b"POST /v1/completions HTTP/1.1\r\nContent-Le",
    b'POST /v1/completions HTTP/1.1\r\nContent-Length: 900\r\n\r\n{"prompt": ',
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
)
"""Their rest never comes: of a head, of a body, of a chunk."""


class Reply(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Events of a stream that must end with `[DONE]`."""
        lines = [line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: ")]
        assert lines[-1] == b"[DONE]"
        return [json.loads(line) for line in lines[:-1]]


class Client:
    """Plain HTTP/1.1, one connection per request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request and read the whole answer."""
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=30)) as to:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            to.request(method, path, data, headers or {})
            reply = to.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())

    def get(self, path: str) -> Reply:
        """GET."""
        return self.send("GET", path)

    def post(self, path: str, body: Any, *, accel: str | None = None, **headers: str) -> Reply:
        """POST, by the path that `accel` asks for."""
        extra = {} if accel is None else {"X-MC-Accel": accel}
        return self.send("POST", path, body, extra | headers)

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every sample of `/metrics`."""
        text = self.get("/metrics").body.decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """The samples that have these labels, added up; 0 when there is none yet."""
        wanted = set(labels.items())
        found = self.samples().items()
        return sum(value for (own, pairs), value in found if own == name and wanted <= {*pairs})

    @contextlib.contextmanager
    def open_stream(self, body: dict[str, Any], *, small_buffer: bool = False) -> Iterator[Any]:
        """A raw socket on which a stream has been asked for."""
        with socket.socket() as raw:
            if small_buffer:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(30)
            raw.connect((self.host, self.port))
            data = json.dumps(body | {"stream": True}).encode()
            head = (
                f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            raw.sendall(head.encode() + data)
            yield raw


def eventually(condition: Callable[[], bool], within_s: float) -> float:
    """Wait for a condition; the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, "did not come true in time"
        time.sleep(0.01)
    return time.monotonic() - began


def ask(**fields: Any) -> dict[str, Any]:
    return {"prompt": WORDS * 4, "max_tokens": 12, "temperature": 0, "ignore_eos": True} | fields


def engines_of(pid: int) -> list[int]:
    """The engines' process ids, in the order of their pools."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def engine_of(pid: int) -> int:
    """The only engine's process id."""
    (engine,) = engines_of(pid)
    return engine


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def everything_logged(server: RunningServer) -> str:
    """All that front and engine have written to standard error."""
    data = os.pread(server.errors.fileno(), 1 << 26, 0)
    return data.decode("utf-8", "replace")
