"""A server on raw sockets that does exactly what a script says, byte by byte."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Step = bytes | float | str
"""Bytes are sent; a number sleeps; `read` takes a request; `close`, `reset`, `hold` end."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@dataclass
class ScriptedServer:
    """One script per connection, in order of arrival; the last one repeats.

    Attributes:
        requests: raw requests as they came.
        sent_ns: monotonic time just before each send.
        n_connections: connections accepted.
    """

    scripts: Sequence[Sequence[Step]]
    requests: list[bytes] = field(default_factory=list)
    sent_ns: list[int] = field(default_factory=list)
    n_connections: int = 0
    n_played: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_open = True
        self._released = threading.Event()
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Where to send."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop listening and end every script."""
        self._is_open = False
        self._released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        while self._is_open:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            script = self.scripts[min(self.n_connections, len(self.scripts) - 1)]
            self.n_connections += 1
            thread = threading.Thread(target=self._play, args=(sock, script), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _play(self, sock: socket.socket, script: Sequence[Step]) -> None:
        with sock, contextlib.suppress(OSError):
            for step in script:
                if isinstance(step, bytes):
                    self.sent_ns.append(time.monotonic_ns())
                    sock.sendall(step)
                elif isinstance(step, (int, float)):
                    time.sleep(step)
                else:
                    self._do(sock, step)
        self.n_played += 1

    def _do(self, sock: socket.socket, step: str) -> None:
        if step == "read":
            self.requests.append(read_request(sock))
        elif step == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        elif step == "hold":
            self._released.wait(30)
        else:
            assert step == "close", step
            sock.close()


def read_request(sock: socket.socket) -> bytes:
    """One request with its Content-Length body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            raise OSError("closed by the client")
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields.get(b"Content-Length", b"0"))
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def chunked(*bodies: bytes) -> bytes:
    """HTTP chunks, one per body, without the last chunk."""
    return b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)


def sized(body: bytes, head: bytes = OK) -> bytes:
    """A response with Content-Length."""
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@contextlib.contextmanager
def serving(*scripts: Sequence[Step]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(scripts)
    try:
        yield server
    finally:
        server.close()
