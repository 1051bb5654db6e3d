"""A page of metrics over HTTP: what answers a scrape, whatever the page holds."""

import socket
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

PATH: Final = "/metrics"


class Answers(Protocol):
    """What a scrape is answered with; called from a thread of each connection."""

    def write(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that `accept` asks for, and its content type."""
        ...

    def answered(self) -> None:
        """A scrape has its answer."""
        ...


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def __init__(self, page: Answers, *arguments: Any) -> None:
        self._page = page
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(404, explain=f"the metrics are at {PATH}")
            return
        text, content_type = self._page.write(self.headers.get("Accept", ""))
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self._page.answered()

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing: a line a second would be the log's only content."""


class PageServer(ThreadingHTTPServer):
    """Serves a page on a socket that listens already."""

    def __init__(self, listener: socket.socket, page: Answers) -> None:
        super().__init__(
            listener.getsockname()[:2], partial(_Handler, page), bind_and_activate=False
        )
        self.socket.close()
        self.socket = listener

    def handle_error(self, *_arguments: Any) -> None:
        """Whoever asked is gone: nothing to tell."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*_arguments)
